"""Chains that are run to their end, as functions of a machine, tensors and a key: what `call_compiled` compiles."""

from __future__ import annotations

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import batch_source
from tf_wcd.sampling.exchange import Ladder, run_ladder
from tf_wcd.sampling.gibbs import run_chains


def by_gibbs(
    machine: Machine, visible: tf.Tensor, held: tf.Tensor | None, steps: tf.Tensor, key: tf.Tensor
) -> tf.Tensor:
    """Visible states after so many Gibbs steps; see `run_chains`."""
    return run_chains(machine, visible, held, steps, batch_source(key)).visible


def by_exchange(
    machine: Machine,
    visible: tf.Tensor,
    held: tf.Tensor | None,
    steps: tf.Tensor,
    key: tf.Tensor,
    bias: tf.Tensor,
    betas: tf.Tensor,
) -> tf.Tensor:
    """Visible states after so many steps of replica exchange; see `run_ladder`."""
    return run_ladder(Ladder(machine, bias, betas), visible, held, steps, batch_source(key))
