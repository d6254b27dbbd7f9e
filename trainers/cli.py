"""The command line: ``wcd COMMAND [flags]``."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Sequence

from absl import flags

from trainers.commands import (
    bench,
    demo,
    evaluate,
    export,
    reproduce,
    sample,
    serve,
    train_dbn,
    train_images,
    train_small,
)
from trainers.commands.command import FLAGS, Command, check_drawing, without_extra

MODULES = (demo, reproduce, train_small, train_images, train_dbn, export, sample, evaluate, bench)
COMMANDS = {module.COMMAND.name: module.COMMAND for module in MODULES}
# Those that read their arguments themselves.
PLAIN_COMMANDS = {serve.COMMAND.name: serve.COMMAND}

# TensorFlow's start-up messages would bury the output; errors are still shown.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def usage() -> str:
    """What ``wcd --help`` shows."""
    lines = ["usage: wcd COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<12} {command.text}" for name, command in (*COMMANDS.items(), *PLAIN_COMMANDS.items())]
    lines += [
        "",
        "wcd COMMAND --help lists a command's flags, with examples.",
        "With --json a command writes one JSON object to standard output.",
        "Exit codes: 0 fine, 1 failure, 2 wrong usage, 3 work left (reproduce), 130 stopped by Ctrl-C (serve: 0).",
        "",
        "example:",
        "  wcd demo --problem=BS09 --epochs=20 --out=demo",
    ]
    return "\n".join(lines)


def help_of(command: Command, flag_names: Sequence[str]) -> str:
    """What ``wcd COMMAND --help`` shows."""
    lines = [f"usage: wcd {command.name} [flags]", "", command.text, "", "flags:"]
    for flag in (FLAGS[flag] for flag in flag_names):
        # A list as it is typed; nothing for what has no default.
        default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
        lines += [f"  --{flag.name}={'' if default is None else default}", f"      {flag.help}"]
    lines += ["", "examples:", *(f"  {example}" for example in command.examples)]
    return "\n".join(lines)


def run_command(command: Command, arguments: Sequence[str]) -> int:
    """Runs a command whose flags have been read; returns its exit code."""
    # With --json, standard output has the result and nothing else.
    aside = contextlib.redirect_stdout(sys.stderr) if FLAGS.json else contextlib.nullcontext()
    try:
        with aside:
            if command.draws:
                check_drawing(command.name)
            outcome = command.run()
    except ModuleNotFoundError as error:
        return without_extra(command.name, error)
    except (ArithmeticError, OSError, RuntimeError, ValueError) as error:
        print(f"wcd {command.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nwcd {command.name}: stopped.", file=sys.stderr)
        if command.resumable:
            again = shlex.join(["wcd", *command.name.split(), *arguments])
            print(f"What was done is kept in {FLAGS.out}. To go on where it was: {again}", file=sys.stderr)
        return 130
    code = outcome if isinstance(outcome, int) else 0
    if FLAGS.json:
        print(json.dumps({"exit_code": code} if isinstance(outcome, int) else outcome))
    return code


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether help is among the flags."""
    return any(argument in ("-h", "-help", "--help") for argument in arguments)


def unknown(name: str, arguments: Sequence[str]) -> int:
    """Answers a name that is no command, or the first word of several; returns the exit code."""
    longer = [command for command in COMMANDS if command.startswith(f"{name} ")]
    if not longer:
        print(f"wcd: unknown command {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    if asks_for_help(arguments):
        print("\n".join(f"wcd {command:<12} {COMMANDS[command].text}" for command in longer))
        return 0
    second = f"unknown command {arguments[0]!r}; " if arguments and not arguments[0].startswith("-") else ""
    choices = ", ".join(f"wcd {command}" for command in longer)
    print(f"wcd {name}: {second}say which: {choices}", file=sys.stderr)
    return 2


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the ``wcd`` command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    if arguments[0] in PLAIN_COMMANDS:
        sys.exit(PLAIN_COMMANDS[arguments[0]].run(arguments[1:]))
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    name, arguments = " ".join(arguments[:words]), arguments[words:]
    if name not in COMMANDS:
        sys.exit(unknown(name, arguments))
    command = COMMANDS[name]
    before = set(FLAGS)
    command.define_flags()
    flags.DEFINE_bool("json", False, "Write one JSON object to standard output, and everything else to standard error.")
    if asks_for_help(arguments):
        print(help_of(command, [flag for flag in FLAGS if flag not in before]))
        sys.exit(0)
    try:
        rest = FLAGS([f"wcd {name}", *arguments])[1:]
        if rest:
            raise flags.Error(f"Unexpected arguments: {' '.join(rest)}")
    except flags.Error as error:
        print(f"wcd {name}: {error}\nSee wcd {name} --help.", file=sys.stderr)
        sys.exit(2)
    sys.exit(run_command(command, arguments))


if __name__ == "__main__":
    main()
