"""What the records say of a method on a set of images: means over its seeds, in nats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers.settings.image_protocol import ImageProtocol, ImageSet
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.studies.images import long_runs

PLAIN = ImageMethod("PCD")


class ImageCell(NamedTuple):
    """The long runs of a method on a set.

    Attributes:
        images: the set.
        method: the negative phase.
        runs: records of the runs that came to their end.
        diverged: how many did not.
    """

    images: ImageSet
    method: ImageMethod
    runs: tuple[Mapping[str, Any], ...]
    diverged: int

    def mean(self, value: Callable[[Mapping[str, Any]], float]) -> float:
        """The mean of a figure over the runs."""
        return float(np.mean([value(record) for record in self.runs]))

    def parzen(self, kind: str, count: int) -> list[float]:
        """Parzen log-likelihood of each run under so many samples, of ``"equilibrium"`` or from ``"data"``."""
        curves = [record["parzen"][kind] for record in self.runs]
        return [curve["values"][curve["counts"].index(count)] for curve in curves]

    @property
    def likelihoods(self) -> list[float]:
        """The estimated log-likelihood of the test images, of each run."""
        return [record["likelihood"]["estimate"] for record in self.runs]

    @property
    def ends(self) -> tuple[float, float]:
        """An interval that covers those of all runs."""
        found = [record["likelihood"] for record in self.runs]
        return min(each["lower"] for each in found), max(each["upper"] for each in found)


def image_cells(folder: Path, protocol: ImageProtocol) -> list[ImageCell]:
    """All sets and methods of the protocol, also those that have not been run; empty if none has."""
    records = [(ImageRun.from_record(record["settings"]), record) for record in long_runs(folder).read()]
    if not records:
        return []
    cells = []
    for images in protocol.sets.values():
        for method in images.methods:
            mine = [each for run, each in records if (run.data, run.image_method) == (images.name, method)]
            done = tuple(each for each in mine if each["likelihood"] is not None)
            cells.append(ImageCell(images, method, done, len(mine) - len(done)))
    return cells


def gains(cells: Sequence[ImageCell], method: ImageMethod) -> dict[str, float]:
    """By how many nats of the log-likelihood a method is above plain persistent chains, by the name of the set."""
    found = {(cell.images.name, cell.method): np.mean(cell.likelihoods) for cell in cells if cell.runs}
    return {
        data: float(mean - found[data, PLAIN])
        for (data, other), mean in found.items()
        if other == method and (data, PLAIN) in found
    }
