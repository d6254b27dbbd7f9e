"""The command line: ``wcd COMMAND [flags]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

# TensorFlow's start-up messages would bury the output; errors are still shown.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

FLAGS = flags.FLAGS


def _demo_flags() -> None:
    flags.DEFINE_string("out", "demo", "Folder for the picture and the models.")
    flags.DEFINE_integer("epochs", 100, "Epochs of 2000 updates for each of the two methods.", lower_bound=1)
    flags.DEFINE_string("problem", "BS16", "The small problem: BS09, BS16, LSE11, LSE15, P08 or P10.")
    flags.DEFINE_integer("seed", 0, "Seed of both runs.")
    flags.DEFINE_integer("verbose", 1, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def _demo() -> int:
    from trainers import demo

    demo.run(FLAGS.out, FLAGS.epochs, FLAGS.problem, FLAGS.seed, FLAGS.verbose)
    return 0


def _export_flags() -> None:
    flags.DEFINE_string("model", None, "File saved by Keras, as model.keras.", required=True)
    flags.DEFINE_string("base_path", None, "Folder of the model's versions.", required=True)
    flags.DEFINE_integer("gibbs_steps", 1000, "Steps of the chains of the signature `sample`.", lower_bound=1)
    flags.DEFINE_integer("keep", None, "Number of newest versions to keep.", lower_bound=1)


def _export() -> int:
    from serving import commands

    commands.export_model(FLAGS.model, FLAGS.base_path, FLAGS.gibbs_steps, FLAGS.keep)
    return 0


def _sample_flags() -> None:
    flags.DEFINE_string("server", "localhost:8500", "host:port of gRPC.")
    flags.DEFINE_string("model_name", "default", "Name of the model.")
    flags.DEFINE_integer("count", 64, "Number of samples.", lower_bound=1)
    flags.DEFINE_integer("seed", None, "Seed; new samples each time if not given.")
    flags.DEFINE_string("png", "", "Picture to write.")
    flags.DEFINE_string("npy", "", "NumPy file to write.")
    flags.DEFINE_float("timeout", 60.0, "Seconds for each request.", lower_bound=0.0)


def _sample() -> int:
    from serving import commands

    commands.sample(FLAGS.server, FLAGS.model_name, FLAGS.count, FLAGS.seed, FLAGS.png, FLAGS.npy, FLAGS.timeout)
    return 0


def _serve(arguments: Sequence[str]) -> int:
    from serving import server

    return server.main(arguments)


# Commands that read their arguments themselves: what each does, and the function.
OTHER_COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "serve": ("Serve models over TF-Serving's protocol, with its flags.", _serve),
}

# Name of each command: what it does, its flags, and the function.
COMMANDS: dict[str, tuple[str, Callable[[], None], Callable[[], int]]] = {
    "demo": (
        "Train CD_1 and WCD_1 on a small problem and compare them with the truth (about 1 minute).",
        _demo_flags,
        _demo,
    ),
    "export": ("Publish a saved model as the next version that a server picks up.", _export_flags, _export),
    "sample": ("Ask a server for samples.", _sample_flags, _sample),
}


def usage() -> str:
    lines = ["usage: wcd COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<10} {entry[0]}" for name, entry in (*COMMANDS.items(), *OTHER_COMMANDS.items())]
    lines += [
        "",
        "wcd COMMAND --help lists a command's flags.",
        "",
        "example:",
        "  wcd demo --problem=BS09 --epochs=20 --out=demo",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the ``wcd`` command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        sys.exit(0 if arguments else 2)
    name = arguments[0]
    if name in OTHER_COMMANDS:
        sys.exit(OTHER_COMMANDS[name][1](arguments[1:]))
    if name not in COMMANDS:
        print(f"wcd: unknown command {name!r}\n\n{usage()}", file=sys.stderr)
        sys.exit(2)
    text, define_flags, command = COMMANDS[name]
    before = set(FLAGS)
    define_flags()
    if any(argument in ("-h", "-help", "--help") for argument in arguments[1:]):
        print(f"usage: wcd {name} [flags]\n\n{text}\n\nflags:")
        for flag in (FLAGS[flag] for flag in FLAGS if flag not in before):
            print(f"  --{flag.name}={flag.default}\n      {flag.help}")
        sys.exit(0)

    def run(rest: list[str]) -> int:
        if len(rest) > 1:
            raise app.UsageError(f"Unexpected arguments: {' '.join(rest[1:])}")
        try:
            return command()
        except ValueError as error:
            print(f"wcd {name}: {error}", file=sys.stderr)
            return 1

    app.run(run, argv=[f"wcd {name}", *arguments[1:]])


if __name__ == "__main__":
    main()
