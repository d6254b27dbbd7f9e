"""``wcd train small``."""

from __future__ import annotations

from pathlib import Path

from absl import flags

from trainers.commands import training_flags
from trainers.commands.command import FLAGS, Command, Outcome
from trainers.settings import paper
from trainers.settings.runs import NEGATIVE_PHASES, SCHEDULES, SmallRun


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("out", "runs", "Folder for the records, the models and the picture.")
    flags.DEFINE_enum("problem", "BS16", paper.PROBLEMS, "The small problem.", case_sensitive=False)
    flags.DEFINE_enum("method", "wcd", NEGATIVE_PHASES, "The negative phase.", case_sensitive=False)
    flags.DEFINE_integer("gibbs_steps", 1, "Gibbs steps k at each update; `exact` takes none.", lower_bound=1)
    flags.DEFINE_integer("hidden", 32, "Hidden units.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start.", lower_bound=0)
    flags.DEFINE_float(
        "variance", 0.01, "Variance of the initial weights, the square of their standard deviation.", lower_bound=0
    )
    flags.DEFINE_enum("schedule", "linear", SCHEDULES, "Whether the rate falls linearly to zero.")
    flags.DEFINE_float("momentum", 0.9, "Momentum of SGD.", lower_bound=0, upper_bound=1)
    flags.DEFINE_float(
        "weight_decay",
        0.0,
        "Part of the weights taken away at each update, less as the rate falls; keeps weighted runs from being lost.",
        lower_bound=0,
        upper_bound=1,
    )
    flags.DEFINE_integer("updates", 200_000, "Updates.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 0, "States at each update; 0 for all.", lower_bound=0)
    flags.DEFINE_integer(
        "seeds", 1, "Models trained side by side, which differ by their random numbers.", lower_bound=1
    )
    flags.DEFINE_integer("seed", 0, "Seed.")
    training_flags.plan_flags()


def run() -> Outcome:
    """Does it."""
    settings = SmallRun(
        problem=FLAGS.problem,
        negative_phase=FLAGS.method,
        gibbs_steps=FLAGS.gibbs_steps,
        hidden=FLAGS.hidden,
        learning_rate=FLAGS.learning_rate,
        variance=FLAGS.variance,
        schedule=FLAGS.schedule,
        momentum=FLAGS.momentum,
        updates=FLAGS.updates,
        batch_size=FLAGS.batch_size,
        weight_decay=FLAGS.weight_decay,
    )
    plan = training_flags.plan()
    from trainers.studies import single

    return {"records": single.run_small(settings, FLAGS.seeds, FLAGS.seed, Path(FLAGS.out), plan)}


COMMAND = Command(
    "train small",
    "Train one method on one small problem and compute its exact KL along the way (seconds to minutes).",
    define_flags,
    run,
    (
        "wcd train small --problem=BS16 --method=wcd --hidden=32 --updates=200000",
        "wcd train small --problem=P08 --method=wcd --gibbs_steps=10 --hidden=40 --variance=1 --seeds=5 --json",
    ),
    draws=True,
    resumable=True,
)
