"""``wcd reproduce``."""

from __future__ import annotations

import os
from pathlib import Path

from absl import flags

from trainers.commands.command import FLAGS, Command, Outcome, list_flag
from trainers.commands.training_flags import checkpoint_flag
from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.protocol import PAPER, PROTOCOLS, SHORT
from trainers.store.sharing import Searcher
from trainers.studies import reproduce
from trainers.studies.work import Work

RESULTS = "trainers/results"


def define_flags() -> None:
    """Its flags."""
    stages = tuple(reproduce.STAGES)
    texts = "; ".join(f"{name}: {stage.text}" for name, stage in reproduce.STAGES.items())
    list_flag("stage", stages, stages, f"What to do, in this order. {texts}.")
    flags.DEFINE_string("out", RESULTS, "Folder of the records; what is finished there is not run again.")
    list_flag("problems", paper.PROBLEMS, paper.PROBLEMS, "Small problems to work on.")
    list_flag("methods", tuple(COLUMNS), tuple(COLUMNS), "Columns of the table to work on.")
    flags.DEFINE_enum(
        "protocol",
        PAPER.name,
        list(PROTOCOLS),
        f"How long runs are, how many, and what is searched. {SHORT.name}: the same work in miniature, to see that it "
        "runs; its figures mean nothing, and it needs a folder that has no others.",
    )
    flags.DEFINE_integer("jobs", 2, "Processes side by side.", lower_bound=1)
    flags.DEFINE_float("minutes", 0, "Begin nothing new after so many minutes; 0 for no limit.", lower_bound=0)
    flags.DEFINE_bool("full_grid", False, "The paper's whole grid (days) instead of successive halving.")
    checkpoint_flag()
    flags.DEFINE_bool(
        "tuner",
        False,
        "Let KerasTuner run the selection (needs the extra `tune`). Many machines can share it: start the same command "
        "with --stage=table --tuner on each, --out in a folder that all of them see, and KerasTuner's environment "
        "variables KERASTUNER_TUNER_ID (`chief` on one, which trains nothing; another name on each other), "
        "KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT (where the chief listens).",
    )


def run() -> Outcome:
    """Does it."""
    folder = Path(FLAGS.out)
    if FLAGS.protocol != PAPER.name and folder.resolve() == Path(RESULTS).resolve():
        raise ValueError(f"--protocol={FLAGS.protocol} needs another folder. Received: --out={FLAGS.out}")
    work = Work(
        folder,
        tuple(FLAGS.problems),
        tuple(FLAGS.methods),
        PROTOCOLS[FLAGS.protocol],
        FLAGS.full_grid,
        FLAGS.tuner,
        Searcher.from_environment(os.environ),
        FLAGS.minutes,
        FLAGS.checkpoint_epochs,
    )
    return reproduce.WORK_LEFT if reproduce.run(FLAGS.stage, work, FLAGS.jobs) else 0


COMMAND = Command(
    "reproduce",
    "Repeat the paper's experiments. It may be stopped at any moment and started again; exit code 0 when all is done, "
    "3 when some of it is left.",
    define_flags,
    run,
    (
        "wcd reproduce --stage=table --minutes=60",
        "wcd reproduce --stage=table --problems=BS09,BS16 --methods=CD_1,WCD_1",
        "wcd reproduce --stage=best,report --protocol=short --out=trial",
        "wcd reproduce --stage=report",
    ),
    draws=True,
    resumable=True,
)
