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


def _train_dbn_flags() -> None:
    flags.DEFINE_string(
        "out", "dbn", "Folder for records, models and pictures; a run that was interrupted goes on here."
    )
    flags.DEFINE_list("parts", "classifier,few_labels,autoencoder,generation", "What to do, one after the other.")
    flags.DEFINE_integer("epochs", 10, "Epochs of pre-training for each layer.", lower_bound=0)
    flags.DEFINE_integer("tuning_epochs", 30, "Epochs of fine-tuning.", lower_bound=1)
    flags.DEFINE_integer("train_size", None, "Number of training images; all if not given.", lower_bound=100)
    flags.DEFINE_integer("seeds", 5, "Seeds of the comparison with few labels.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of everything else.")
    flags.DEFINE_float("width", 1.0, "Width of the hidden layers, as a part of the full one.", lower_bound=0.001)
    flags.DEFINE_integer("verbose", 2, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def _train_dbn() -> int:
    from trainers import dbn

    settings = dbn.Settings(
        epochs=FLAGS.epochs,
        tuning_epochs=FLAGS.tuning_epochs,
        train_size=FLAGS.train_size,
        seeds=FLAGS.seeds,
        seed=FLAGS.seed,
        width=FLAGS.width,
    )
    dbn.run(FLAGS.out, FLAGS.parts, settings, FLAGS.verbose)
    return 0


# Name of each command, of one word or two: what it does, its flags, and the function.
COMMANDS: dict[str, tuple[str, Callable[[], None], Callable[[], int]]] = {
    "demo": (
        "Train CD_1 and WCD_1 on a small problem and compare them with the truth (about 1 minute).",
        _demo_flags,
        _demo,
    ),
    "train dbn": (
        "Pre-train Deep Belief Networks on MNIST, fine-tune them, and draw digits from them (about 1 hour on 2 cores).",
        _train_dbn_flags,
        _train_dbn,
    ),
}


def usage() -> str:
    lines = ["usage: wcd COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<10} {text}" for name, (text, _, _) in COMMANDS.items()]
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
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    name, arguments = " ".join(arguments[:words]), arguments[words - 1 :]
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
