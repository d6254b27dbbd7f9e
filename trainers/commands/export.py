"""``wcd export``."""

from __future__ import annotations

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("model", None, "File saved by Keras, as model.keras. Needed.", required=True)
    flags.DEFINE_string(
        "base_path",
        None,
        "Folder of the model's versions, which `wcd serve` has as --model_base_path. Needed.",
        required=True,
    )
    flags.DEFINE_integer(
        "gibbs_steps", None, "Steps of the chains of the signature `sample`; 1000 if not given.", lower_bound=1
    )
    flags.DEFINE_integer("keep", None, "Number of newest versions to keep; all if not given.", lower_bound=1)


def run() -> Outcome:
    """Does it."""
    from serving import commands

    return {"path": str(commands.export_model(FLAGS.model, FLAGS.base_path, FLAGS.gibbs_steps, FLAGS.keep))}


COMMAND = Command(
    "export",
    "Publish a saved model as the next version that a server picks up.",
    define_flags,
    run,
    ("wcd export --model=demo/bcd.keras --base_path=models/rbm --keep=3",),
)
