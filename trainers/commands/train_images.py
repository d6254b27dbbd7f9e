"""``wcd train images``."""

from __future__ import annotations

from pathlib import Path

from absl import flags

from trainers.commands import training_flags
from trainers.commands.command import FLAGS, Command, Outcome
from trainers.settings.image_protocol import IMAGE_SETS
from trainers.settings.runs import ImageMethod, ImageRun


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("out", "runs", "Folder for the records, the model and the pictures.")
    flags.DEFINE_enum("data", "mnist", list(IMAGE_SETS), f"The set of images. {training_flags.BLACK_AND_WHITE}")
    flags.DEFINE_enum("method", "PCD", ["PCD", "WPCD", "JPCD", "PTT"], "The negative phase.", case_sensitive=False)
    flags.DEFINE_float(
        "minimum_ess", 0.0, "With WPCD or JPCD: temper the weights to keep this part of the chains effective.", 0.0, 1.0
    )
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start; it falls linearly to zero.", lower_bound=0)
    flags.DEFINE_integer("epochs", 20, "Passes over the training images.", lower_bound=1)
    flags.DEFINE_bool("centered", True, "The centred gradient.")
    flags.DEFINE_enum("units", "bernoulli", ["bernoulli", "spin"], "Units of both layers.")
    training_flags.plan_flags()


def run() -> Outcome:
    """Does it."""
    method = ImageMethod(FLAGS.method, FLAGS.minimum_ess)
    settings = ImageRun(
        data=FLAGS.data,
        method=method.name,
        minimum_ess=method.minimum_ess,
        units=FLAGS.units,
        centered=FLAGS.centered,
        learning_rate=FLAGS.learning_rate,
        epochs=FLAGS.epochs,
    )
    plan = training_flags.plan()
    from trainers.studies import single

    return {"record": single.run_images(settings, Path(FLAGS.out), plan)}


COMMAND = Command(
    "train images",
    "Train one RBM on a set of images, as in the paper (500 hidden units, batches of 100, momentum 0.75, weight decay "
    "0.0002, a rate that falls to zero); evaluate it, and draw its samples and filters (minutes to hours).",
    define_flags,
    run,
    (
        "wcd train images --data=mnist --method=PCD --epochs=20",
        "wcd train images --data=ocr_letters --method=WPCD --minimum_ess=0.5",
        "wcd train images --data=mnist --epochs=100 --strategy=multiworker --checkpoint_epochs=5",
    ),
    draws=True,
    resumable=True,
)
