"""What an `RBMLayer` gives to its export: its machine, the start of its chains, and how it was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tf_wcd.export.saved_model import export_machines

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


def export_layer(rbm: RBMLayer, path: Any, start: Any = None, **kwargs: Any) -> None:
    """Writes one layer: see `RBMLayer.export`."""
    if rbm.replicas:
        raise ValueError("Members of an ensemble are exported one by one: `ensemble.member(i).export(path)`.")
    machine = rbm.machine()
    if start is None:
        start = known_means(rbm)
    export_machines([machine], path, start=start, facts={"training": training_summary(rbm)}, **kwargs)


def known_means(rbm: RBMLayer) -> np.ndarray | None:
    """Means of the data as far as the layer remembers them, or of its persistent chains; ``None`` without either."""
    if rbm.data_means is not None:
        return np.clip(rbm.data_means, *rbm.visible_unit.data_range)
    if "visible" in rbm.chain_variables:
        return np.asarray(rbm.chain_variables["visible"], "float64").mean(0)
    return None


def training_summary(rbm: RBMLayer) -> dict[str, Any]:
    """How the layer was trained, as far as it knows, for the metadata."""
    summary: dict[str, Any] = {"negative_phase": rbm.negative_phase.name, "gibbs_steps": rbm.gibbs_steps}
    optimizer = getattr(rbm, "optimizer", None)
    if optimizer is not None:
        summary |= {"optimizer": optimizer.name, "updates": int(optimizer.iterations.numpy())}
    history = getattr(rbm, "history", None)
    logs = getattr(history, "history", None) or {}
    last = {name: float(np.asarray(values[-1])) for name, values in logs.items() if np.size(values[-1]) == 1}
    if last:
        summary["last_epoch"] = {name: value for name, value in last.items() if np.isfinite(value)}
    return summary
