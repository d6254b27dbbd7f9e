"""What an update of one method costs against that of another, on images."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import keras
import numpy as np

import tf_wcd
from trainers.runs.image_samples import in_units
from trainers.runs.image_sets import build
from trainers.settings.image_protocol import ImageProtocol
from trainers.settings.runs import ImageRun
from trainers.settings.weights_protocol import Timing


def cost_ratios(runs: Sequence[ImageRun], protocol: ImageProtocol, x: np.ndarray, timing: Timing) -> list[float]:
    """Time of an update of each run over that of the first.

    All of them make some updates in turn, again and again, and the ratios are taken within a round: the speed of a
    machine drifts, and that of two neighbours drifts alike.

    Args:
        runs: what to compare; the first is the reference.
        protocol: what all runs have in common.
        x: images of 0 and 1.
        timing: how long.

    Returns:
        The median over the rounds, for each of the runs; 1 for the first.
    """
    keras.utils.clear_session(free_memory=True)
    models = [_compiled(run, protocol, x, timing) for run in runs]
    inputs = in_units(x, runs[0].units)
    rounds = []
    for _ in range(timing.rounds + 1):
        times = [_seconds(model, inputs, protocol.batch_size, timing.updates) for model in models]
        rounds.append([seconds / times[0] for seconds in times])
    # The first round compiles.
    return [statistics.median(ratios) for ratios in zip(*rounds[1:], strict=True)]


def _compiled(run: ImageRun, protocol: ImageProtocol, x: np.ndarray, timing: Timing) -> tf_wcd.RBMLayer:
    return build(run, protocol, timing.updates * (timing.rounds + 1), x.shape[1], None)


def _seconds(rbm: tf_wcd.RBMLayer, x: np.ndarray, batch_size: int, updates: int) -> float:
    start = time.perf_counter()
    rbm.fit(x, batch_size=batch_size, steps_per_epoch=updates, verbose=0)
    return time.perf_counter() - start
