"""The commands of ``wcd``: what each does, its flags with examples, and the function that does it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import flags

from trainers import paper, train_commands
from trainers.train_commands import FLAGS, Outcome, list_flag


def _demo_flags() -> None:
    flags.DEFINE_string("out", "demo", "Folder for the pictures and the models.")
    flags.DEFINE_integer("epochs", 100, "Epochs of 2000 updates for each of the two methods.", lower_bound=1)
    flags.DEFINE_enum(
        "problem",
        "BS16",
        [problem for problem in paper.PROBLEMS if problem not in paper.BATCHED],
        "The small problem; rates and initial weights are those found for BS16, and suit others less.",
        case_sensitive=False,
    )
    flags.DEFINE_integer("seed", 0, "Seed of both runs.")
    flags.DEFINE_integer("verbose", 1, "Keras' verbosity: 0 silent, 1 progress bars, 2 a line for each epoch.")


def _demo() -> Outcome:
    from trainers import demo

    kl = demo.run(FLAGS.out, FLAGS.epochs, FLAGS.problem, FLAGS.seed, FLAGS.verbose)
    return {"kl": kl, "out": FLAGS.out}


def _reproduce_flags() -> None:
    stages = ("table", "best", "generalisation", "large", "report")
    list_flag(
        "stage",
        stages,
        stages,
        "What to do, in this order. table: selection and 3 to 10 seeds of 6 methods on 9 problems (about 8 hours on 2 "
        "cores); best: the lowest KL with any method (20 minutes); generalisation: training on a part of the states "
        "(30 minutes); large: PCD and WPCD on four image sets (about 5 hours); report: REPORT.md and its figures "
        "(2 minutes).",
    )
    flags.DEFINE_string("out", "trainers/results", "Folder of the records; what is finished there is not run again.")
    list_flag("problems", paper.PROBLEMS, paper.PROBLEMS, "Small problems to work on.")
    list_flag("methods", tuple(paper.METHODS), tuple(paper.METHODS), "Columns of the table to work on.")
    flags.DEFINE_integer("jobs", 2, "Processes side by side.", lower_bound=1)
    flags.DEFINE_float("minutes", 0, "Begin nothing new after so many minutes; 0 for no limit.", lower_bound=0)
    flags.DEFINE_bool("full_grid", False, "The paper's whole grid (days) instead of successive halving.")
    flags.DEFINE_bool(
        "tuner",
        False,
        "Let KerasTuner run the selection (needs the extra `tune`). Many machines can share it: start the same command "
        "with --stage=table --tuner on each, --out in a folder that all of them see, and KerasTuner's environment "
        "variables KERASTUNER_TUNER_ID (`chief` on one, which trains nothing; a name of its own on each other), "
        "KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT (where the chief listens).",
    )


def _reproduce() -> Outcome:
    from trainers import reproduce

    work = reproduce.Work(Path(FLAGS.out), FLAGS.problems, FLAGS.methods, FLAGS.full_grid, FLAGS.tuner, FLAGS.minutes)
    return reproduce.WORK_LEFT if reproduce.run(FLAGS.stage, work, FLAGS.jobs) else 0


def _export_flags() -> None:
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


def _export() -> Outcome:
    from serving import commands

    return {"path": str(commands.export_model(FLAGS.model, FLAGS.base_path, FLAGS.gibbs_steps, FLAGS.keep))}


def _evaluate_flags() -> None:
    flags.DEFINE_string("model", None, "File saved by Keras, as model.keras. Needed.", required=True)
    flags.DEFINE_enum(
        "data",
        None,
        [*paper.PROBLEMS, *paper.IMAGES],
        f"The small problem or the set of images. Needed. {train_commands.BLACK_AND_WHITE}",
        required=True,
    )
    flags.DEFINE_integer("chains", 100, "Chains of annealing, for models too large for exact sums.", lower_bound=2)
    flags.DEFINE_integer("temperatures", 1000, "Temperatures of annealing.", lower_bound=2)
    flags.DEFINE_integer("seed", 0, "Seed of the estimates.")


def _evaluate() -> Outcome:
    from trainers import evaluate

    return evaluate.evaluate(FLAGS.model, FLAGS.data, FLAGS.chains, FLAGS.temperatures, FLAGS.seed)


def _bench_flags() -> None:
    parts = ("training", "partition", "growth", "likelihood", "serving", "scale")
    list_flag("parts", (), parts, f"Which measurements, of {', '.join(parts)}; all if not given.")


def _bench() -> Outcome:
    import importlib.util
    import subprocess

    if importlib.util.find_spec("benchmarks") is None:
        raise ValueError("The measurements are not installed with the package: run this in a clone of the repository.")
    missing = [module for module in ("rbms", "sklearn", "torch") if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"What is measured against is not installed: run `make bench`. Missing: {', '.join(missing)}")
    command = [sys.executable, "-m", "benchmarks", *FLAGS.parts]
    return min(subprocess.run(command, stdout=sys.stderr if FLAGS.json else None).returncode, 1)


def _sample_flags() -> None:
    flags.DEFINE_string("server", "localhost:8500", "host:port of the server's gRPC port.")
    flags.DEFINE_string("model_name", "default", "Name of the model on the server, as `wcd serve --model_name` has it.")
    flags.DEFINE_string("model", "", "File of an RBMLayer, saved by Keras, to sample here without a server.")
    flags.DEFINE_integer("gibbs_steps", 1000, "With --model: steps of the chains.", lower_bound=1)
    flags.DEFINE_integer("count", 64, "Number of samples.", lower_bound=1)
    flags.DEFINE_integer("seed", None, "Seed; new samples each time if not given.")
    flags.DEFINE_string("png", "", "Picture to write.")
    flags.DEFINE_string("npy", "", "NumPy file to write.")
    flags.DEFINE_float("timeout", 60.0, "Seconds for each request.", lower_bound=0.0)
    flags.DEFINE_integer(
        "max_rows", 1000, "The most samples of one request; more are asked for in several.", lower_bound=1
    )


def _sample() -> Outcome:
    from serving import commands

    if FLAGS.model:
        from trainers import evaluate

        samples = evaluate.sample_saved(FLAGS.model, FLAGS.count, FLAGS.gibbs_steps, FLAGS.seed)
        commands.keep_samples(samples, FLAGS.png, FLAGS.npy)
    else:
        samples = commands.sample(
            FLAGS.server, FLAGS.model_name, FLAGS.count, FLAGS.seed, FLAGS.png, FLAGS.npy, FLAGS.timeout, FLAGS.max_rows
        )
    return {"samples": samples.tolist()}


def without_extra(name: str, error: ModuleNotFoundError) -> int:
    """Exit code of a command whose packages are not installed; it says how to get them."""
    if (error.name or "").partition(".")[0] not in ("grpc", "grpc_health", "tensorflow_serving"):
        raise error
    print(f"wcd {name} needs the extra `serving` ({error}): pip install '.[serving]'", file=sys.stderr)
    return 1


def _serve(arguments: Sequence[str]) -> int:
    from serving import options

    options.parse(arguments)  # help and wrong flags without waiting for TensorFlow
    try:
        from serving import server
    except ModuleNotFoundError as error:
        return without_extra("serve", error)
    return server.main(arguments)


# Commands that read their arguments themselves: what each does, and the function.
OTHER_COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "serve": ("Serve models over TF-Serving's protocol, with its flags.", _serve),
}

# Name of each command, of one word or two: what it does, its flags, and the function.
COMMANDS: dict[str, tuple[str, Callable[[], None], Callable[[], Outcome]]] = {
    "demo": (
        "Train CD_1 and WCD_1 on a small problem and compare them with the truth (about 1 minute).",
        _demo_flags,
        _demo,
    ),
    "reproduce": (
        "Repeat the paper's experiments. It may be stopped at any moment and started again; exit code 0 when all is "
        "done, 3 when some of it is left.",
        _reproduce_flags,
        _reproduce,
    ),
    "train small": (
        "Train one method on one small problem and look at its exact KL along the way (seconds to minutes).",
        train_commands.train_small_flags,
        train_commands.train_small,
    ),
    "train images": (
        "Train one RBM on a set of images, as in the paper (500 hidden units, batches of 100, momentum 0.75, weight "
        "decay 0.0002, a rate that falls to zero); evaluate it, and draw its samples and filters (minutes to hours).",
        train_commands.train_images_flags,
        train_commands.train_images,
    ),
    "train dbn": (
        "Pre-train Deep Belief Networks on MNIST, fine-tune them, and draw digits from them (about 1 hour on 2 cores).",
        train_commands.train_dbn_flags,
        train_commands.train_dbn,
    ),
    "export": ("Publish a saved model as the next version that a server picks up.", _export_flags, _export),
    "sample": ("Draw samples, from a server or from a saved model (seconds).", _sample_flags, _sample),
    "evaluate": (
        "Say how good a saved model is on a data set: exactly where that can be done (seconds), else by annealed "
        "importance sampling in both directions (a minute for 784 x 500 units).",
        _evaluate_flags,
        _evaluate,
    ),
    "bench": (
        "Measure against peers, as `make bench` does (about 18 minutes; needs the extra `bench`).",
        _bench_flags,
        _bench,
    ),
}

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("wcd demo", "wcd demo --problem=BS09 --epochs=20 --out=demo"),
    "reproduce": (
        "wcd reproduce --stage=table --minutes=60",
        "wcd reproduce --stage=table --problems=BS09,BS16 --methods=CD_1,WCD_1",
        "wcd reproduce --stage=report",
    ),
    "train small": (
        "wcd train small --problem=BS16 --method=wcd --hidden=32 --updates=200000",
        "wcd train small --problem=P08 --method=wcd --gibbs_steps=10 --hidden=40 --variance=1 --seeds=5 --json",
    ),
    "train images": (
        "wcd train images --data=mnist --method=PCD --epochs=20",
        "wcd train images --data=ocr_letters --method=WPCD --minimum_ess=0.5",
        "wcd train images --data=mnist --epochs=100 --strategy=multiworker --checkpoint_epochs=5",
    ),
    "train dbn": ("wcd train dbn --parts=classifier", "wcd train dbn --parts=generation --epochs=6 --out=dbn"),
    "export": ("wcd export --model=demo/wcd.keras --base_path=models/rbm --keep=3",),
    "sample": (
        "wcd sample --server=localhost:8500 --model_name=rbm --count=64 --png=sheet.png",
        "wcd sample --model=demo/wcd.keras --count=1000 --npy=samples.npy",
    ),
    "evaluate": (
        "wcd evaluate --model=demo/wcd.keras --data=BS16",
        "wcd evaluate --model=digits.keras --data=mnist --temperatures=10000 --json",
    ),
    "bench": ("wcd bench", "wcd bench --parts=training,likelihood"),
}
# Commands that keep their work as they go: the same command goes on where it was.
RESUMABLE = ("train small", "train images", "train dbn", "reproduce")
