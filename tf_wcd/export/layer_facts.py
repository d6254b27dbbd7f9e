"""What an `RBMLayer` or a `DBN` gives to its export: machines, the start of the chains, and how it was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tf_wcd.export.saved_model import export_machines
from tf_wcd.negative_phases import name_of

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN
    from tf_wcd.layer import RBMLayer


def export_layer(rbm: RBMLayer, path: Any, start: Any = None, **kwargs: Any) -> None:
    """Writes one layer: see `RBMLayer.export`."""
    if rbm.visible_unit.classes and not rbm.classes:
        raise ValueError(
            "An RBM with labels is exported as a Deep Belief Network of one layer: `tf_wcd.DBN([rbm]).export(path)`. "
            f"Received: visible_type={rbm.visible_unit.name!r}"
        )
    machine = rbm.machine()
    facts = {"training": training_summary(rbm)}
    export_machines([machine], path, start=start, data_means=known_means(rbm), facts=facts, **kwargs)


def export_dbn(dbn: DBN, path: Any, start: Any = None, **kwargs: Any) -> None:
    """Writes a stack: see `DBN.export`."""
    facts = {"training": [training_summary(rbm) for rbm in dbn.rbms], "up_down": dbn.untied}
    export_machines(
        dbn.machines(),
        path,
        start=start,
        data_means=known_means(dbn.rbms[-1]),
        facts=facts,
        generative=dbn.generative_machines() if dbn.untied else None,
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
