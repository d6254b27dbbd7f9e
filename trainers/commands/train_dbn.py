"""``wcd train dbn``."""

from __future__ import annotations

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome, list_flag
from trainers.commands.training_flags import resume_flag
from trainers.settings.dbn import PARTS
from trainers.settings.runs import DBNRun


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string(
        "out", "dbn", "Folder for records, models and pictures; a run that was interrupted goes on here."
    )
    list_flag("parts", tuple(PARTS), tuple(PARTS), "What to do, one after the other.")
    flags.DEFINE_integer("epochs", 10, "Epochs of pre-training for each layer.", lower_bound=0)
    flags.DEFINE_integer("tuning_epochs", 30, "Epochs of fine-tuning.", lower_bound=1)
    flags.DEFINE_integer(
        "train_size", None, "Number of training images, and at most of test images; all if not given.", lower_bound=100
    )
    flags.DEFINE_integer("seeds", 5, "Seeds of the comparison with few labels.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of everything else.")
    flags.DEFINE_bool(
        "validation", False, "Hold out the last 10,000 training images and measure on them, not on the test images."
    )
    resume_flag()
    flags.DEFINE_float("width", 1.0, "Width of the hidden layers, as a part of the full one.", lower_bound=0.001)
    flags.DEFINE_integer("verbose", 2, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def run() -> Outcome:
    """Does it."""
    from trainers.studies.dbn import study

    settings = DBNRun(
        epochs=FLAGS.epochs,
        tuning_epochs=FLAGS.tuning_epochs,
        train_size=FLAGS.train_size,
        seeds=FLAGS.seeds,
        seed=FLAGS.seed,
        width=FLAGS.width,
        validation=FLAGS.validation,
    )
    return {"records": study.run(FLAGS.out, FLAGS.parts, settings, FLAGS.verbose, FLAGS.resume)}


COMMAND = Command(
    "train dbn",
    "Pre-train Deep Belief Networks on MNIST, fine-tune them, and draw digits from them (about 1 hour on 2 cores).",
    define_flags,
    run,
    ("wcd train dbn --parts=classifier", "wcd train dbn --parts=generation --epochs=6 --out=dbn"),
    draws=True,
    resumable=True,
)
