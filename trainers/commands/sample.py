"""``wcd sample``."""

from __future__ import annotations

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome, check_drawing


def define_flags() -> None:
    """Its flags."""
    flags.DEFINE_string("server", "localhost:8500", "host:port of the server's gRPC port.")
    flags.DEFINE_string("model_name", "default", "Name of the model on the server, as `wcd serve --model_name` has it.")
    flags.DEFINE_string("model", "", "File of an RBMLayer, saved by Keras, to sample here without a server.")
    flags.DEFINE_integer("gibbs_steps", 1000, "With --model: steps of the chains.", lower_bound=1)
    flags.DEFINE_integer("count", 64, "Number of samples.", lower_bound=1)
    flags.DEFINE_integer("seed", None, "Seed; new samples each time if not given.")
    flags.DEFINE_integer("label", None, "Class of the samples, of a model with labels.", lower_bound=0)
    flags.DEFINE_string("png", "", "Picture to write.")
    flags.DEFINE_string("npy", "", "NumPy file to write.")
    flags.DEFINE_float("timeout", 60.0, "Seconds for each request.", lower_bound=0.0)
    flags.DEFINE_integer(
        "max_rows", 1000, "The most samples of one request; more are asked for in several.", lower_bound=1
    )


def run() -> Outcome:
    """Does it."""
    from serving import commands

    if FLAGS.png:
        check_drawing("sample")
    if FLAGS.model:
        from trainers.studies import saved_model

        samples = saved_model.sample(FLAGS.model, FLAGS.count, FLAGS.gibbs_steps, FLAGS.seed, FLAGS.label)
        commands.keep_samples(samples, FLAGS.png, FLAGS.npy)
    else:
        samples = commands.sample(
            FLAGS.server,
            FLAGS.model_name,
            FLAGS.count,
            FLAGS.seed,
            FLAGS.png,
            FLAGS.npy,
            FLAGS.timeout,
            FLAGS.max_rows,
            FLAGS.label,
        )
    return {"samples": samples.tolist()}


COMMAND = Command(
    "sample",
    "Draw samples, from a server or from a saved model (seconds).",
    define_flags,
    run,
    (
        "wcd sample --server=localhost:8500 --model_name=rbm --count=64 --png=sheet.png",
        "wcd sample --server=localhost:8500 --model_name=digits --label=7 --png=sevens.png",
        "wcd sample --model=demo/bcd.keras --count=1000 --npy=samples.npy",
    ),
)
