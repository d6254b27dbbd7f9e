"""Processes and devices that train one model together: which strategy, who writes, and how they keep in step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_wcd import compat, replicas

STRATEGIES = ("none", "mirrored", "multiworker")


class Workers:
    """The processes that train one model together, most often this one alone.

    Make it before anything else of TensorFlow is used: several workers join up when their strategy is made, and they
    find each other by the environment variable TF_CONFIG.

    Args:
        strategy: ``"none"`` for one device, ``"mirrored"`` for all devices of this machine, or ``"multiworker"``.

    Example:

    >>> alone = Workers()
    >>> alone.several, alone.chief
    (False, True)
    """

    def __init__(self, strategy: str = "none") -> None:
        if strategy not in STRATEGIES:
            raise ValueError(f"`strategy` must be one of {STRATEGIES}. Received: strategy={strategy!r}")
        kinds: dict[str, Callable[[], Any]] = {
            "none": tf.distribute.get_strategy,
            "mirrored": tf.distribute.MirroredStrategy,
            "multiworker": tf.distribute.MultiWorkerMirroredStrategy,
        }
        self.strategy = kinds[strategy]()

    @property
    def several(self) -> bool:
        """Whether there are several processes."""
        return compat.runs_in_several_processes(self.strategy)

    @property
    def chief(self) -> bool:
        """Whether this is the process that writes results."""
        return compat.is_chief(self.strategy)

    def agree(self, number: int, what: str) -> int:
        """A number that all workers have; they wait for each other here.

        Raises:
            ValueError: if their numbers differ.
        """
        if not self.several:
            return number

        def gather() -> tf.Tensor:
            return replicas.gather(tf.constant([number], tf.int32), axis=0)

        everywhere = tf.function(lambda: self.strategy.run(gather), autograph=False)()
        numbers = self.strategy.experimental_local_results(everywhere)[0].numpy().tolist()
        if len(set(numbers)) > 1:
            raise ValueError(
                f"All workers must have the same {what}: give --out a folder that all of them see. Received: {numbers}"
            )
        return number

    def wait(self) -> None:
        """Waits until all workers have come here."""
        self.agree(0, "end")

    def save(self, save: Callable[[Path], None], path: Path) -> None:
        """Saves in step: every worker saves, since chains are gathered from all, but only the chief's file stays."""
        if self.chief:
            save(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            save(Path(folder) / path.name)
