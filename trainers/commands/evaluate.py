"""``wcd evaluate``."""

from __future__ import annotations

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome
from trainers.commands.training_flags import BLACK_AND_WHITE
from trainers.settings import paper
from trainers.settings.image_protocol import IMAGE_SETS


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("model", None, "File saved by Keras, as model.keras. Needed.", required=True)
    flags.DEFINE_enum(
        "data",
        None,
        [*paper.PROBLEMS, *IMAGE_SETS],
        f"The small problem or the set of images. Needed. {BLACK_AND_WHITE}",
        required=True,
    )
    flags.DEFINE_integer("chains", 100, "Chains of annealing, for models too large for exact sums.", lower_bound=2)
    flags.DEFINE_integer(
        "temperatures", None, "Temperatures of annealing; if not given, until both directions agree.", lower_bound=2
    )
    flags.DEFINE_bool(
        "mixing", False, "Also say whether chains of Gibbs sampling mix, from random states and from the data."
    )
    flags.DEFINE_integer("seed", 0, "Seed of the estimates.")


def run() -> Outcome:
    """Does it."""
    from trainers.studies import saved_model

    return saved_model.evaluate(FLAGS.model, FLAGS.data, FLAGS.chains, FLAGS.temperatures, FLAGS.seed, FLAGS.mixing)


COMMAND = Command(
    "evaluate",
    "Say how good a saved model is on a data set: exactly where that can be done (seconds), else by annealed "
    "importance sampling in both directions (minutes for 784 x 500 units).",
    define_flags,
    run,
    (
        "wcd evaluate --model=demo/bcd.keras --data=BS16",
        "wcd evaluate --model=demo/bcd.keras --data=BS16 --mixing",
        "wcd evaluate --model=digits.keras --data=mnist --temperatures=10000 --json",
    ),
)
