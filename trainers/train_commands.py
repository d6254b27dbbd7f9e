"""``wcd train small | images | dbn``: their flags, and the functions that do the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from trainers import paper

FLAGS = flags.FLAGS

# An exit code, or what a command has found, for `--json`.
Outcome = int | dict[str, Any]


BLACK_AND_WHITE = (
    "Images are black and white: those of MNIST drawn at random from their grey levels (seed 0), those of "
    "Fashion-MNIST by a threshold. Of either the last 5000 training images are held back."
)


def list_flag(name: str, default: Sequence[str], choices: Sequence[str], text: str) -> None:
    """A flag for some of the choices, separated by commas."""
    flags.DEFINE_list(name, ",".join(default), text)
    flags.register_validator(
        name, lambda given: set(given) <= set(choices), f"must be some of {', '.join(choices)}, separated by commas"
    )


def _resume_flag() -> None:
    flags.DEFINE_bool(
        "resume",
        True,
        "Go on where the same run was stopped or killed, to the same bits as without the interruption, and do not "
        "repeat what is finished. (With several workers images go on, but not to the same bits.) --noresume begins "
        "anew, and removes what there is of the run.",
    )


def _sharing_flags() -> None:
    _resume_flag()
    flags.DEFINE_integer(
        "checkpoint_epochs",
        0,
        "Epochs from one checkpoint to the next; 0 for one a minute, or one after each epoch with several workers, who "
        "must save together.",
        lower_bound=0,
    )
    flags.DEFINE_enum(
        "strategy",
        "none",
        ["none", "mirrored", "multiworker"],
        "mirrored: on all devices of this machine. multiworker: together with other machines; start the same command "
        "on each, with the environment variable TF_CONFIG as for Keras, and --out in a folder that all of them see.",
    )


def _plan() -> Any:
    from trainers.checkpoints import Plan
    from trainers.workers import Workers

    return Plan(FLAGS.resume, FLAGS.checkpoint_epochs, Workers(FLAGS.strategy))


def train_dbn_flags() -> None:
    """Flags of `wcd train dbn`."""
    flags.DEFINE_string(
        "out", "dbn", "Folder for records, models and pictures; a run that was interrupted goes on here."
    )
    parts = ("classifier", "few_labels", "autoencoder", "generation")
    list_flag("parts", parts, parts, "What to do, one after the other.")
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
    _resume_flag()
    flags.DEFINE_float("width", 1.0, "Width of the hidden layers, as a part of the full one.", lower_bound=0.001)
    flags.DEFINE_integer("verbose", 2, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def train_dbn() -> Outcome:
    """Does `wcd train dbn`."""
    from trainers import dbn

    settings = dbn.Settings(
        epochs=FLAGS.epochs,
        tuning_epochs=FLAGS.tuning_epochs,
        train_size=FLAGS.train_size,
        seeds=FLAGS.seeds,
        seed=FLAGS.seed,
        width=FLAGS.width,
        validation=FLAGS.validation,
    )
    return {"records": dbn.run(FLAGS.out, FLAGS.parts, settings, FLAGS.verbose, FLAGS.resume)}


def train_small_flags() -> None:
    """Flags of `wcd train small`."""
    flags.DEFINE_string("out", "runs", "Folder for the records, the models and the picture.")
    flags.DEFINE_enum("problem", "BS16", paper.PROBLEMS, "The small problem.", case_sensitive=False)
    flags.DEFINE_enum(
        "method", "wcd", ["cd", "wcd", "pcd", "wpcd", "exact"], "The negative phase.", case_sensitive=False
    )
    flags.DEFINE_integer("gibbs_steps", 1, "Gibbs steps k at each update.", lower_bound=1)
    flags.DEFINE_integer("hidden", 32, "Hidden units.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start.", lower_bound=0)
    flags.DEFINE_float(
        "variance", 0.01, "Variance of the initial weights, the square of their standard deviation.", lower_bound=0
    )
    flags.DEFINE_enum("schedule", "linear", ["linear", "constant"], "Whether the rate falls linearly to zero.")
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
    _sharing_flags()


def train_small() -> Outcome:
    """Does `wcd train small`."""
    plan = _plan()  # before TensorFlow is used: several workers join up here
    from trainers import one_run
    from trainers.settings import Settings

    settings = Settings(
        FLAGS.problem,
        FLAGS.method,
        FLAGS.gibbs_steps,
        FLAGS.hidden,
        FLAGS.learning_rate,
        FLAGS.variance,
        FLAGS.schedule,
        FLAGS.momentum,
        FLAGS.updates,
        FLAGS.batch_size,
        weight_decay=FLAGS.weight_decay,
    )
    return {"records": one_run.run_small(settings, FLAGS.seeds, FLAGS.seed, Path(FLAGS.out), plan=plan)}


def train_images_flags() -> None:
    """Flags of `wcd train images`."""
    flags.DEFINE_string("out", "runs", "Folder for the records, the model and the pictures.")
    flags.DEFINE_enum("data", "mnist", paper.IMAGES, f"The set of images. {BLACK_AND_WHITE}")
    flags.DEFINE_enum("method", "PCD", ["PCD", "WPCD"], "The negative phase.", case_sensitive=False)
    flags.DEFINE_float(
        "minimum_ess", 0.0, "With WPCD: temper the weights to keep this part of the chains effective.", 0.0, 1.0
    )
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start; it falls linearly to zero.", lower_bound=0)
    flags.DEFINE_integer("epochs", 20, "Passes over the training images.", lower_bound=1)
    flags.DEFINE_bool("centered", True, "The centred gradient.")
    flags.DEFINE_enum("units", "bernoulli", ["bernoulli", "spin"], "Units of both layers.")
    _sharing_flags()


def train_images() -> Outcome:
    """Does `wcd train images`."""
    plan = _plan()  # before TensorFlow is used: several workers join up here
    from trainers import one_run
    from trainers.large_sets import ImageSettings

    method = FLAGS.method
    if FLAGS.minimum_ess:
        if method != "WPCD":
            raise ValueError(
                "`--minimum_ess` tempers the weights of --method=WPCD; other methods have none. "
                f"Received: --method={method} --minimum_ess={FLAGS.minimum_ess:g}"
            )
        method = f"WPCD, ESS >= {100 * FLAGS.minimum_ess:g}%"
    settings = ImageSettings(FLAGS.data, method, FLAGS.units, FLAGS.centered, FLAGS.learning_rate, FLAGS.epochs)
    return {"record": one_run.run_images(settings, Path(FLAGS.out), plan=plan)}
