"""A run for the record of a Deep Belief Network: a second layer on a trained one, and the bound on its likelihood."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd import evaluation
from tf_wcd.random import batch_source, key_of, subkey
from trainers.runs.record_runs import Inputs, images_of_epoch, train_on
from trainers.runs.resumable import Plan, Trained
from trainers.settings.record_protocol import Annealing, RecordRun
from trainers.settings.runs import fingerprint

ROWS_AT_A_TIME = 10_000
_STATES = 0xDE  # in the place of a counter: the draws are none of the model's own


def train_top(
    run: RecordRun,
    below: tf_wcd.RBMLayer,
    images: np.ndarray,
    seed: int,
    checkpoints: Path | None,
    plan: Plan,
    verbose: bool = True,
) -> Trained:
    """Trains a second layer, which starts as the first one transposed; the same call goes on where it was stopped.

    So the bound starts at the likelihood of the first layer alone, and training can only raise it, on what it sees
    (Hinton, Osindero and Teh 2006).

    Args:
        run: settings of the second layer.
        below: the first one, trained.
        images: training images, as grey levels where they are drawn anew at each epoch.
        seed: of images, states and the layer.
        checkpoints: folder of the checkpoints; ``None`` for none.
        plan: how the run is kept.
        verbose: whether there is a progress line.
    """

    def of_epoch(epoch: int) -> np.ndarray:
        return states_above(below, images_of_epoch(run, images, epoch, seed), seed, epoch)

    def start(top: tf_wcd.RBMLayer) -> None:
        dbn = tf_wcd.DBN([below, top])
        dbn.build((None, below.num_visible))
        dbn.initialize_transposed(1)

    facts = {"below": fingerprint(kernel=below.kernel.numpy().tobytes().hex())}
    return train_on(run, Inputs(of_epoch, start, len(images), below.units, facts), seed, checkpoints, plan, verbose)


def states_above(rbm: tf_wcd.RBMLayer, x: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """Hidden states drawn given visible ones, the same whenever those of this epoch are asked for."""
    machine, key = rbm.machine(), key_of(tf.constant([seed, _STATES], tf.int64))
    parts = []
    for start in range(0, len(x), ROWS_AT_A_TIME):
        field = machine.hidden_field(tf.constant(x[start : start + ROWS_AT_A_TIME]))
        parts.append(machine.sample_hidden(field, batch_source(subkey(key, epoch, start)), 0).numpy())
    return np.concatenate(parts)


def bound(dbn: tf_wcd.DBN, x: np.ndarray, annealing: Annealing) -> dict[str, Any]:
    """The lower bound on the mean log-likelihood in nats, with the interval that follows from that of log Z."""
    start = time.monotonic()
    found = evaluation.variational_bound(
        dbn,
        x,
        seed=annealing.seed,
        budget=annealing.budget,
        tolerance=annealing.tolerance,
        chains=annealing.chains,
    )
    annealed = found.annealed
    upper = found.mean + found.log_partition - (annealed.lower if annealed else found.log_partition)
    return {
        "estimate": round(found.mean, 3),
        "lower": round(found.lower, 3),
        "upper": round(upper, 3),
        "log_partition": round(found.log_partition, 3),
        "from": found.log_partition_method,
        "reason": annealed.reason if annealed else "",
        "evaluation_seconds": round(time.monotonic() - start),
    }
