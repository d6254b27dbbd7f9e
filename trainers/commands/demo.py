"""``wcd demo``."""

from __future__ import annotations

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome
from trainers.settings import paper


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("out", "demo", "Folder for the pictures and the models.")
    flags.DEFINE_integer("epochs", 50, "Epochs of 2000 updates for each method.", lower_bound=1)
    flags.DEFINE_enum(
        "problem",
        "BS16",
        [problem for problem in paper.PROBLEMS if problem not in paper.BATCHED],
        "The small problem; the rate and the initial weights are those found for CD_1 on BS16.",
        case_sensitive=False,
    )
    flags.DEFINE_integer("seed", 0, "Seed of all runs.")
    flags.DEFINE_integer("verbose", 1, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def run() -> Outcome:
    """Does it."""
    from trainers.studies import demo

    kl = demo.run(FLAGS.out, FLAGS.epochs, FLAGS.problem, FLAGS.seed, FLAGS.verbose)
    return {"kl": kl, "out": FLAGS.out}


COMMAND = Command(
    "demo",
    "Train CD_1, WCD_1 and BCD_1 alike on a small problem and compare them with the truth (about 1 minute).",
    define_flags,
    run,
    ("wcd demo", "wcd demo --problem=BS09 --epochs=20 --out=demo"),
    draws=True,
)
