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


def _train_dbn_flags() -> None:
    flags.DEFINE_string(
        "out", "dbn", "Folder for records, models and pictures; a run that was interrupted goes on here."
    )
    flags.DEFINE_list("parts", "classifier,few_labels,autoencoder,generation", "What to do, one after the other.")
    flags.DEFINE_integer("epochs", 10, "Epochs of pre-training for each layer.", lower_bound=0)
    flags.DEFINE_integer("tuning_epochs", 30, "Epochs of fine-tuning.", lower_bound=1)
    flags.DEFINE_integer("train_size", None, "Number of training images; all if not given.", lower_bound=100)
    flags.DEFINE_integer("seeds", 5, "Seeds of the comparison with few labels.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of everything else.")
    flags.DEFINE_float("width", 1.0, "Width of the hidden layers, as a part of the full one.", lower_bound=0.001)
    flags.DEFINE_integer("verbose", 2, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def _train_dbn() -> int:
    from trainers import dbn

    settings = dbn.Settings(
        epochs=FLAGS.epochs,
        tuning_epochs=FLAGS.tuning_epochs,
        train_size=FLAGS.train_size,
        seeds=FLAGS.seeds,
        seed=FLAGS.seed,
        width=FLAGS.width,
    )
    dbn.run(FLAGS.out, FLAGS.parts, settings, FLAGS.verbose)
    return 0


def _train_small_flags() -> None:
    flags.DEFINE_string("out", "runs", "Folder for the records, the models and the picture.")
    flags.DEFINE_enum("problem", "BS16", paper.PROBLEMS, "The small problem.")
    flags.DEFINE_enum("method", "wcd", ["cd", "wcd", "pcd", "wpcd", "exact"], "The negative phase.")
    flags.DEFINE_integer("gibbs_steps", 1, "Gibbs steps k at each update.", lower_bound=1)
    flags.DEFINE_integer("hidden", 32, "Hidden units.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start.", lower_bound=0)
    flags.DEFINE_float("variance", 0.01, "Variance of the initial weights.", lower_bound=0)
    flags.DEFINE_enum("schedule", "linear", ["linear", "constant"], "Whether the rate falls linearly to zero.")
    flags.DEFINE_float("momentum", 0.9, "Momentum of SGD.", lower_bound=0, upper_bound=1)
    flags.DEFINE_integer("updates", 200_000, "Updates.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 0, "States at each update; 0 for all.", lower_bound=0)
    flags.DEFINE_integer(
        "seeds", 1, "Models trained side by side, which differ by their random numbers.", lower_bound=1
    )
    flags.DEFINE_integer("seed", 0, "Seed.")


def _train_small() -> int:
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
    )
    one_run.run_small(settings, FLAGS.seeds, FLAGS.seed, Path(FLAGS.out))
    return 0


def _train_images_flags() -> None:
    flags.DEFINE_string("out", "runs", "Folder for the records, the model and the pictures.")
    flags.DEFINE_enum("data", "mnist", paper.IMAGES, "The set of images.")
    flags.DEFINE_enum("method", "PCD", ["PCD", "WPCD"], "The negative phase.")
    flags.DEFINE_float(
        "minimum_ess", 0.0, "With WPCD: temper the weights to keep this part of the chains effective.", 0.0, 1.0
    )
    flags.DEFINE_float("learning_rate", 0.05, "Learning rate at the start; it falls linearly to zero.", lower_bound=0)
    flags.DEFINE_integer("epochs", 20, "Passes over the training images.", lower_bound=1)
    flags.DEFINE_bool("centered", True, "The centred gradient.")
    flags.DEFINE_enum("units", "bernoulli", ["bernoulli", "spin"], "Units of both layers.")


def _train_images() -> int:
    from trainers import one_run
    from trainers.large_sets import ImageSettings

    method = f"WPCD, ESS >= {100 * FLAGS.minimum_ess:g}%" if FLAGS.minimum_ess else FLAGS.method
    settings = ImageSettings(FLAGS.data, method, FLAGS.units, FLAGS.centered, FLAGS.learning_rate, FLAGS.epochs)
    one_run.run_images(settings, Path(FLAGS.out))
    return 0


def _export_flags() -> None:
    flags.DEFINE_string("model", None, "File saved by Keras, as model.keras.", required=True)
    flags.DEFINE_string("base_path", None, "Folder of the model's versions.", required=True)
    flags.DEFINE_integer(
        "gibbs_steps", None, "Steps of the chains of the signature `sample`; 1000 if not given.", lower_bound=1
    )
    flags.DEFINE_integer("keep", None, "Number of newest versions to keep.", lower_bound=1)


def _export() -> int:
    from serving import commands

    commands.export_model(FLAGS.model, FLAGS.base_path, FLAGS.gibbs_steps, FLAGS.keep)
    return 0


def _sample_flags() -> None:
    flags.DEFINE_string("server", "localhost:8500", "host:port of gRPC.")
    flags.DEFINE_string("model_name", "default", "Name of the model.")
    flags.DEFINE_integer("count", 64, "Number of samples.", lower_bound=1)
    flags.DEFINE_integer("seed", None, "Seed; new samples each time if not given.")
    flags.DEFINE_string("png", "", "Picture to write.")
    flags.DEFINE_string("npy", "", "NumPy file to write.")
    flags.DEFINE_float("timeout", 60.0, "Seconds for each request.", lower_bound=0.0)
    flags.DEFINE_integer(
        "max_rows", 1000, "The most samples of one request; the server may have a limit.", lower_bound=1
    )


def _sample() -> int:
    from serving import commands

    commands.sample(
        FLAGS.server, FLAGS.model_name, FLAGS.count, FLAGS.seed, FLAGS.png, FLAGS.npy, FLAGS.timeout, FLAGS.max_rows
    )
    return 0


def _serve(arguments: Sequence[str]) -> int:
    from serving import server

    return server.main(arguments)


# Commands that read their arguments themselves: what each does, and the function.
OTHER_COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "serve": ("Serve models over TF-Serving's protocol, with its flags.", _serve),
}

# Name of each command, of one word or two: what it does, its flags, and the function.
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
    "train small": (
        "Train one method on one small problem and look at its exact KL along the way (seconds to minutes).",
        _train_small_flags,
        _train_small,
    ),
    "train images": (
        "Train one RBM on a set of images; evaluate it, and draw its samples and filters (minutes to hours).",
        _train_images_flags,
        _train_images,
    ),
    "train dbn": (
        "Pre-train Deep Belief Networks on MNIST, fine-tune them, and draw digits from them (about 1 hour on 2 cores).",
        _train_dbn_flags,
        _train_dbn,
    ),
    "export": ("Publish a saved model as the next version that a server picks up.", _export_flags, _export),
    "sample": ("Ask a server for samples.", _sample_flags, _sample),
}


def usage() -> str:
    lines = ["usage: wcd COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<12} {entry[0]}" for name, entry in (*COMMANDS.items(), *OTHER_COMMANDS.items())]
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
    if arguments[0] in OTHER_COMMANDS:
        sys.exit(OTHER_COMMANDS[arguments[0]][1](arguments[1:]))
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    name, arguments = " ".join(arguments[:words]), arguments[words - 1 :]
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
