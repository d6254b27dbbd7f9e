"""Members of an ensemble trained in parts, each on a core of its own.

XLA runs the many small operations of an ensemble one after the other, on one core. Members know nothing of each other:
a part of them is an ensemble, and parts of one size run the same compiled program, from threads of their own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.training.sharing import variables_of

LEAST_MEMBERS = 8  # of a part: fewer are hardly worth a thread


def cores() -> int:
    """Cores that this process may use; 1 where a GPU computes."""
    if tf.config.list_logical_devices("GPU"):
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def spans(members: int) -> list[tuple[int, int]]:
    """The first member and the number of members of each part; a single one where there are too few.

    Example:

    >>> spans(3)
    [(0, 3)]
    """
    count = max(1, min(cores(), members // LEAST_MEMBERS))
    bounds = [members * i // count for i in range(count + 1)]
    return [(first, behind - first) for first, behind in itertools.pairwise(bounds)]


class Parts:
    """The updates of a model as those of its parts.

    The model's variables are what callbacks see and what is saved: parts get their values before each call, and give
    them back.

    Args:
        whole: the model.
        parts: models of some of its members each, in their order, ready to be trained.
        runs: the updates of each part, as a compiled function.
    """

    def __init__(
        self, whole: keras.Model, parts: Sequence[keras.Model], runs: Sequence[Callable[..., dict[str, Any]]]
    ) -> None:
        self._whole, self._runs = whole, runs
        counted = {id(v.value) for metric in whole.metrics for v in metric.variables}
        mine, *theirs = ([*(variables_of(model) or [])] for model in (whole, *parts))
        self._variables = list(zip(mine, zip(*theirs, strict=True), strict=True))
        self._counted = [id(variable) in counted for variable in mine]
        self._threads = ThreadPoolExecutor(len(parts))

    def __call__(self, *arguments: Any) -> dict[str, Any]:
        self._give()
        list(self._threads.map(lambda run: run(*arguments), self._runs))
        self._take()
        return {metric.name: metric.result() for metric in self._whole.metrics}

    def _give(self) -> None:
        for mine, theirs in self._variables:
            if mine.shape == theirs[0].shape:
                for variable in theirs:
                    variable.assign(mine)
                continue
            sizes = [variable.shape[0] for variable in theirs]
            for variable, value in zip(theirs, tf.split(mine, sizes), strict=True):
                variable.assign(value)

    def _take(self) -> None:
        for (mine, theirs), counted in zip(self._variables, self._counted, strict=True):
            if mine.shape != theirs[0].shape:
                mine.assign(tf.concat(theirs, axis=0))
            elif counted:  # sums over members, and numbers of them
                mine.assign(tf.add_n([variable - mine for variable in theirs]) + mine)
            else:
                mine.assign(theirs[0])
