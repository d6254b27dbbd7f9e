"""log Z of a model that has watched it while it trained."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


@dataclasses.dataclass(frozen=True)
class OnlineLogPartition:
    """A running log Z in nats; arrays ``[count]`` for an ensemble.

    Attributes:
        estimate: of ``"jpcd"``, log of the mean of Z over independent groups of chains. Z itself is estimated without
            bias, so log Z is too *low* on average, the more so the larger the error. Of ``"ptt"``, the sum of Bennett's
            ratios between neighbours of the ladder.
        standard_error: of ``estimate``. Of ``"jpcd"``, from the spread of the groups: ten of them know it to about a
            quarter, so that deviations have Student's distribution with nine degrees of freedom. Of ``"ptt"``, from
            the spread of the chains, which are independent ladders; infinite where two neighbours do not overlap. Above
            about one nat, distrust both.
    """

    estimate: Any
    standard_error: Any


def online_log_partition(rbm: RBMLayer) -> OnlineLogPartition:
    """log Z at the present parameters, from chains that have followed the model through its training.

    The model must have been trained with a negative phase that has such chains: ``"jpcd"``, where it costs one free
    energy of each, or ``"ptt"``, where all chains of the ladder make 80 Gibbs steps. Parameters may have been changed
    by hand since: a large change makes the error large.

    Args:
        rbm: an `RBMLayer` or `RBMEnsemble` that has been trained. Several workers must ask together.

    Raises:
        ValueError: if there is no running log Z.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, negative_phase="jpcd", seed=0)
    >>> rbm.compile(keras.optimizers.SGD(0.05))
    >>> history = rbm.fit(states, batch_size=14, epochs=5, verbose=0)
    >>> result = online_log_partition(rbm)
    >>> abs(result.estimate - tf_wcd.evaluation.log_partition(rbm)) < 4 * result.standard_error
    True
    """
    rbm.require_built()
    known = known_log_partition(rbm)
    if known is None:
        phase = rbm.negative_phase
        observers = phase.get_config().get("observers", "none")
        raise ValueError(
            "The model has no running log Z. Train it with negative_phase='jpcd', whose observers give one unless "
            "there are 0, or with 'ptt', or use `tf_wcd.evaluation.annealed_log_partition`. "
            f"Received: {type(phase).__name__} with observers={observers}"
            + ("" if rbm.has_phase_state() else ", before its first `fit`")
        )
    return known


def known_log_partition(rbm: RBMLayer) -> OnlineLogPartition | None:
    """As `online_log_partition`; ``None`` if there is no running log Z."""
    state = {name: tf.constant(value) for name, value in rbm.chain_states().items()}
    known = rbm.negative_phase.log_partition(rbm.machine(), state)
    return None if known is None else OnlineLogPartition(*(_number(value) for value in known))


def _number(value: tf.Tensor) -> Any:
    array = np.asarray(value, "float64")
    return array if array.shape else float(array)
