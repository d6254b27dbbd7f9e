"""What the parts of the study share: data, settings, and records of what is finished."""

from __future__ import annotations

import datetime
import fnmatch
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tf_wcd
from trainers.runs.resumable import Plan
from trainers.settings.dbn import CLASSES, PARTS
from trainers.settings.runs import DBNRun
from trainers.store.records import Records

# Beginning of the name under which a pre-trained stack is recorded.
PRETRAINING = "pretraining of "


class Data:
    """MNIST, its training part cut to size."""

    def __init__(self, settings: DBNRun) -> None:
        (x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
        if settings.validation:
            (x, x_test), (y, y_test) = np.split(x, [-10_000]), np.split(y, [-10_000])
        size = settings.train_size
        self.x, self.y = x[:size], y[:size].astype("int32")
        self.x_test, self.y_test = x_test[:size], y_test[:size].astype("int32")

    def few(self, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """A part of the labelled images, with equally many of each class."""
        generator = np.random.default_rng(seed)
        each = max(1, round(fraction * len(self.x) / CLASSES))
        rows = [generator.permutation(np.flatnonzero(self.y == label))[:each] for label in range(CLASSES)]
        chosen = generator.permutation(np.concatenate(rows))
        return self.x[chosen], self.y[chosen]


class Finished:
    """The records of what is finished in a folder, parts and pre-trained stacks: lines of ``dbn.jsonl``.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = Records(folder / "dbn.jsonl")

    def find(self, part: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The record of a part; None if it is not finished.

        Raises:
            ValueError: if the part was done with other settings, which are not mixed with these.
        """
        found = [record for record in self.records.read() if record["part"] == part]
        old = self.folder / f"{part}.json"
        if not found and old.exists():  # a record in the form of version 0.1
            record = json.loads(old.read_text())
            found = [record] if record["finished"] else []
        if not found:
            return None
        if found[-1]["settings"] != settings:
            raise ValueError(
                f"{self.folder} has a run of {part} with other settings: use another folder, or the same settings. "
                f"Received: {settings} instead of {found[-1]['settings']}"
            )
        return found[-1]

    def add(self, part: str, settings: Mapping[str, Any], **results: Any) -> dict[str, Any]:
        """Adds the record of a part, and returns it."""
        finished = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count()}
        record = {"part": part, "settings": dict(settings), **results, **finished}
        self.records.append(record)
        return record

    def forget(self, part: str) -> None:
        """Removes all that there is of a part: its records first, so that a kill leaves nothing that looks finished."""
        names = PARTS[part].files
        self.records.remove(
            lambda record: any(fnmatch.fnmatch(record["part"].removeprefix(PRETRAINING), name) for name in names)
        )
        for name in names:
            for pattern in (f"{name}.json", f"{name}.jsonl", f"{name}.keras"):
                for file in self.folder.glob(pattern):
                    file.unlink()
            for start in ("", "."):
                for file in self.folder.glob(f"checkpoints/{start}{name}-*"):
                    file.unlink()


class Study(NamedTuple):
    """What a part works with.

    Attributes:
        folder: where records (``dbn.jsonl``), epochs (``.jsonl``), models and pictures go.
        settings: what to do.
        data: the images.
        finished: records of what is done.
        plan: how runs are kept.
        verbose: Keras' verbosity.
    """

    folder: Path
    settings: DBNRun
    data: Data
    finished: Finished
    plan: Plan
    verbose: int

    def keep(self, part: str, **results: Any) -> None:
        """Adds the record of a part: it is finished."""
        self.finished.add(part, self.settings.as_dict(), **results)

    def records(self, name: str) -> Records:
        """The records of a part or a stack along the way: of its epochs, or of its runs."""
        return Records(self.folder / f"{name}.jsonl")


def run(
    folder: str | Path, parts: Sequence[str], settings: DBNRun, verbose: int = 2, resume: bool = True
) -> dict[str, Any]:
    """Runs the parts that are not finished yet, and returns their records.

    Args:
        folder: where everything goes.
        parts: names out of `PARTS`.
        settings: what to do.
        verbose: Keras' verbosity.
        resume: go on where parts were stopped; if not, what there is of them is removed first.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"`parts` must be some of {list(PARTS)}. Received: {parts}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finished, facts = Finished(folder), settings.as_dict()
    if not resume:
        for part in parts:
            finished.forget(part)
    done = {part: finished.find(part, facts) for part in parts}
    study: Study | None = None
    for part in parts:
        if done[part] is not None:
            print(f"{part}: finished already, see {folder}")
            continue
        study = study or Study(folder, settings, Data(settings), finished, Plan(checkpoint_epochs=1), verbose)
        module, _, name = PARTS[part].function.partition(":")
        work = getattr(importlib.import_module(module), name)
        print(f"{part}: {work.__doc__}")
        work(study)
        done[part] = finished.find(part, facts)
    return done
