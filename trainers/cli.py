"""The command line: ``wcd COMMAND [flags]``."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Sequence

from absl import flags

from trainers.commands import COMMANDS, EXAMPLES, FLAGS, OTHER_COMMANDS, RESUMABLE, without_extra

# TensorFlow's start-up messages would bury the output; errors are still shown.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def usage() -> str:
    lines = ["usage: wcd COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<12} {entry[0]}" for name, entry in (*COMMANDS.items(), *OTHER_COMMANDS.items())]
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


def help_of(name: str, flag_names: Sequence[str]) -> str:
    """What ``wcd NAME --help`` shows."""
    lines = [f"usage: wcd {name} [flags]", "", COMMANDS[name][0], "", "flags:"]
    for flag in (FLAGS[flag] for flag in flag_names):
        # A list as it is typed; nothing for what has no default.
        default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
        lines += [f"  --{flag.name}={'' if default is None else default}", f"      {flag.help}"]
    lines += ["", "examples:", *(f"  {example}" for example in EXAMPLES[name])]
    return "\n".join(lines)


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Runs a command whose flags have been read; returns its exit code."""
    # With --json, standard output has the result and nothing else.
    aside = contextlib.redirect_stdout(sys.stderr) if FLAGS.json else contextlib.nullcontext()
    try:
        with aside:
            outcome = COMMANDS[name][2]()
    except ModuleNotFoundError as error:
        return without_extra(name, error)
    except (ArithmeticError, OSError, RuntimeError, ValueError) as error:
        print(f"wcd {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nwcd {name}: stopped.", file=sys.stderr)
        if name in RESUMABLE:
            again = shlex.join(["wcd", *name.split(), *arguments])
            print(f"What was done is kept in {FLAGS.out}. To go on where it was: {again}", file=sys.stderr)
        return 130
    code = outcome if isinstance(outcome, int) else 0
    if FLAGS.json:
        print(json.dumps({"exit_code": code} if isinstance(outcome, int) else outcome))
    return code


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the ``wcd`` command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    if arguments[0] in OTHER_COMMANDS:
        sys.exit(OTHER_COMMANDS[arguments[0]][1](arguments[1:]))
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    name, arguments = " ".join(arguments[:words]), arguments[words:]
    if name not in COMMANDS:
        longer = [command for command in COMMANDS if command.startswith(f"{name} ")]
        if longer:
            if any(argument in ("-h", "-help", "--help") for argument in arguments):
                print("\n".join(f"wcd {command:<12} {COMMANDS[command][0]}" for command in longer))
                sys.exit(0)
            unknown = f"unknown command {arguments[0]!r}; " if arguments and not arguments[0].startswith("-") else ""
            choices = ", ".join(f"wcd {command}" for command in longer)
            print(f"wcd {name}: {unknown}say which: {choices}", file=sys.stderr)
        else:
            print(f"wcd: unknown command {name!r}\n\n{usage()}", file=sys.stderr)
        sys.exit(2)
    before = set(FLAGS)
    COMMANDS[name][1]()
    flags.DEFINE_bool("json", False, "Write one JSON object to standard output, and everything else to standard error.")
    if any(argument in ("-h", "-help", "--help") for argument in arguments):
        print(help_of(name, [flag for flag in FLAGS if flag not in before]))
        sys.exit(0)
    try:
        rest = FLAGS([f"wcd {name}", *arguments])[1:]
        if rest:
            raise flags.Error(f"Unexpected arguments: {' '.join(rest)}")
    except flags.Error as error:
        print(f"wcd {name}: {error}\nSee wcd {name} --help.", file=sys.stderr)
        sys.exit(2)
    sys.exit(run_command(name, arguments))


if __name__ == "__main__":
    main()
