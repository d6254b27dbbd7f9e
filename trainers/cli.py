"""The command line: ``wcd COMMAND [flags]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags

from trainers import paper

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


def _reproduce_flags() -> None:
    flags.DEFINE_list(
        "stage",
        "table,best,generalisation,large,report",
        "What to do, in this order. table: selection and 10 seeds of 6 methods on 9 problems (8 hours on 2 cores); "
        "best: the lowest KL with any method (20 minutes); generalisation: training on a part of the states "
        "(30 minutes); large: PCD and WPCD on four image sets (about 5 hours); report: REPORT.md and its figures "
        "(2 minutes).",
    )
    flags.DEFINE_string("out", "trainers/results", "Folder of the records; what is finished there is not run again.")
    flags.DEFINE_list("problems", ",".join(paper.PROBLEMS), "Small problems to work on.")
    flags.DEFINE_list("methods", ",".join(paper.METHODS), "Columns of the table to work on.")
    flags.DEFINE_integer("jobs", 2, "Processes side by side.", lower_bound=1)
    flags.DEFINE_float("minutes", 0, "Begin nothing new after so many minutes; 0 for no limit.", lower_bound=0)
    flags.DEFINE_bool("full_grid", False, "The paper's whole grid (days) instead of successive halving.")
    flags.DEFINE_bool("tuner", False, "Let KerasTuner run the selection (needs the extra `tune`).")


def _reproduce() -> int:
    from trainers import reproduce

    work = reproduce.Work(Path(FLAGS.out), FLAGS.problems, FLAGS.methods, FLAGS.full_grid, FLAGS.tuner, FLAGS.minutes)
    return min(reproduce.run(FLAGS.stage, work, FLAGS.jobs), 100)


# Name of each command: what it does, its flags, and the function.
COMMANDS: dict[str, tuple[str, Callable[[], None], Callable[[], int]]] = {
    "demo": (
        "Train CD_1 and WCD_1 on a small problem and compare them with the truth (about 1 minute).",
        _demo_flags,
        _demo,
    ),
    "reproduce": (
        "Repeat the paper's experiments. It may be stopped at any moment and started again; exit code 0 when all is "
        "done, else the number of pieces of work left.",
        _reproduce_flags,
        _reproduce,
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
    name = arguments[0]
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
