"""Flags that the commands ``wcd train ...`` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import flags

from trainers.commands.command import FLAGS

if TYPE_CHECKING:
    from trainers.runs.resumable import Plan

BLACK_AND_WHITE = (
    "Images are black and white: those of MNIST drawn at random from their grey levels (seed 0), those of "
    "Fashion-MNIST by a threshold. Of either the last 5000 training images are held back."
)


def resume_flag() -> None:
    """--resume."""
    flags.DEFINE_bool(
        "resume",
        True,
        "Go on where the same run was stopped or killed, to the same bits as without the interruption, and do not "
        "repeat what is finished. (With several workers images go on, but not to the same bits.) --noresume begins "
        "anew, and removes what there is of the run.",
    )


def checkpoint_flag(others: str = "") -> None:
    """--checkpoint_epochs."""
    flags.DEFINE_integer(
        "checkpoint_epochs",
        0,
        f"Epochs from one checkpoint to the next; 0 for one a minute{others}.",
        lower_bound=0,
    )


def plan_flags() -> None:
    """How a run is kept and shared: --resume, --checkpoint_epochs, --strategy."""
    resume_flag()
    checkpoint_flag(", or one after each epoch with several workers, who must save together")
    flags.DEFINE_enum(
        "strategy",
        "none",
        ["none", "mirrored", "multiworker"],
        "mirrored: on all devices of this machine. multiworker: together with other machines; start the same command "
        "on each, with the environment variable TF_CONFIG as for Keras, and --out in a folder that all of them see.",
    )


def plan() -> Plan:
    """What `plan_flags` say. To be called before TensorFlow is used: several workers join up here."""
    from trainers.runs.resumable import Plan
    from trainers.runs.workers import Workers

    return Plan(FLAGS.resume, FLAGS.checkpoint_epochs, workers=Workers(FLAGS.strategy))
