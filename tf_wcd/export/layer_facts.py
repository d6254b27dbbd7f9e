"""What an `RBMLayer` or a `DBN` gives to its export: machines, the start of the chains, and how it was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.export.saved_model import export_machines
from tf_wcd.images import as_rows
from tf_wcd.negative_phases import name_of
from tf_wcd.random import key_of
from tf_wcd.tables import array_of

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN
    from tf_wcd.layer import RBMLayer

# Samples of the model that chains start from, and sweeps of all temperatures, or moments, that make them new ones.
STATES, SWEEPS = 500, 100


def export_layer(rbm: RBMLayer, path: Any, start: Any = None, **kwargs: Any) -> None:
    """Writes one layer: see `RBMLayer.export`."""
    machine = rbm.machine()
    facts = {"training": training_summary(rbm), "mixing": mixing_summary(rbm)}
    export_machines(
        [machine],
        path,
        start=_rows_of_start(start, rbm),
        data_means=known_means(rbm),
        facts=facts,
        equilibrium=lambda: equilibrium_states(rbm),
        **kwargs,
    )


def _rows_of_start(start: Any, rbm: RBMLayer) -> Any:
    """Means or states to start from without the shape of images."""
    if start is None or rbm.visible_shape is None:
        return start
    values = array_of(start, "start")
    return values.ravel() if values.shape == rbm.visible_shape else as_rows(values, rbm.visible_shape)


def export_dbn(dbn: DBN, path: Any, start: Any = None, **kwargs: Any) -> None:
    """Writes a stack: see `DBN.export`."""
    top = dbn.rbms[-1]
    facts = {
        "training": [training_summary(rbm) for rbm in dbn.rbms],
        "up_down": dbn.untied,
        "mixing": mixing_summary(top),
    }
    export_machines(
        dbn.machines(),
        path,
        start=start,
        data_means=known_means(top),
        facts=facts,
        generative=dbn.generative_machines() if dbn.untied else None,
        equilibrium=lambda: equilibrium_states(top),
        **kwargs,
    )


def known_means(rbm: RBMLayer) -> np.ndarray | None:
    """Means of the data as far as the layer remembers them, or of its persistent chains; ``None`` without either."""
    if rbm.data_means is not None:
        known = rbm.visible_unit.describe_columns(rbm.num_visible)
        return np.clip(rbm.data_means, known.low, known.high)
    if "visible" in rbm.chain_variables:
        return np.asarray(rbm.chain_variables["visible"], "float64").mean(0)
    return None


def equilibrium_states(rbm: RBMLayer) -> np.ndarray | None:
    """Samples of the model, labels included, from chains of its training that go on by themselves.

    ``None`` where the training had none, as only ``negative_phase="ptt"`` has. The same model gives the same states.
    """
    state = {name: tf.constant(value) for name, value in rbm.chain_states().items()}
    if not state:
        return None
    source, key = rbm.negative_phase.source, key_of(tf.constant([0, 0], tf.int64))
    samples = source.samples(rbm.machine(), state, STATES, tf.constant(SWEEPS), key)
    return None if samples is None else np.asarray(samples)


def mixing_summary(rbm: RBMLayer) -> dict[str, Any] | None:
    """What `tf_wcd.evaluation.mixing` has found for the layer as it is, for the metadata; ``None`` if not asked."""
    known = rbm.known_mixing()
    if known is None:
        return None
    figures = ("r_hat", "autocorrelation_time", "gibbs_steps")
    return {"mixed": bool(known.mixed), "reason": known.reason, **{n: float(getattr(known, n)) for n in figures}}


def training_summary(rbm: RBMLayer) -> dict[str, Any]:
    """How the layer was trained, as far as it knows, for the metadata."""
    phase = rbm.negative_phase
    # The steps of the phase: the layer's argument says nothing where the phase was passed as an object.
    steps = getattr(phase.source, "gibbs_steps", None)
    name = name_of(phase) or type(phase).__name__
    summary: dict[str, Any] = {"negative_phase": name, "gibbs_steps": steps}
    optimizer = getattr(rbm, "optimizer", None)
    if optimizer is not None:
        summary |= {"optimizer": optimizer.name, "updates": int(optimizer.iterations.numpy())}
    history = getattr(rbm, "history", None)
    logs = getattr(history, "history", None) or {}
    last = {name: float(np.asarray(values[-1])) for name, values in logs.items() if np.size(values[-1]) == 1}
    if last:
        summary["last_epoch"] = {name: value for name, value in last.items() if np.isfinite(value)}
    return summary
