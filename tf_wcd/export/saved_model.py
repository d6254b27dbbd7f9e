"""Writing a model as a SavedModel that TF-Serving serves."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tf_wcd.arguments import check_integer
from tf_wcd.evaluation import exact
from tf_wcd.export.manifest import write_manifest
from tf_wcd.export.served_model import ServedModel
from tf_wcd.export.starts import start_of
from tf_wcd.export.table import DEFAULT_SIGNATURE, SIGNATURES, example_inputs
from tf_wcd.export.warmup import write_warmup
from tf_wcd.machine import Machine
from tf_wcd.normaliser import check_normaliser
from tf_wcd.version import __version__

FACTS = "tf_wcd.json"
MOST = 2**31 - 2  # of steps and rows, which the graph counts in 32 bits


def export_machines(
    machines: Sequence[Machine],
    path: str | Path,
    gibbs_steps: int = 1000,
    max_steps: int = 10_000,
    max_rows: int = 10_000,
    start: Any = None,
    data_means: np.ndarray | None = None,
    facts: dict[str, Any] | None = None,
    warmup: bool = True,
    generative: Sequence[Machine] | None = None,
    equilibrium: Callable[[], np.ndarray | None] | None = None,
) -> None:
    """Writes RBMs, the first one nearest to the data, as one SavedModel: see `export` of `tf_wcd.RBMLayer` and `DBN`.

    Args:
        machines: one RBM, or several: then the last one is sampled, and its visible units are passed down. Its visible
            units may have labels beside them, which are drawn with the others and left out of answers.
        path: folder to write; it must not exist, or be empty.
        gibbs_steps: steps of the chains of the signature `sample`.
        max_steps: the most steps that a request to `gibbs` or `clamp` may ask for.
        max_rows: the most rows in one batch.
        start: where `sample`'s chains start: means of the last RBM's visible units (labels included), ``[units]``; or
            states of them, ``[n, units]``, one of which is picked by each row's seed; or ``None`` for exact samples of
            the model where all states can be listed (up to 2^16: 16 binary units), and elsewhere what ``equilibrium``
            makes, or the data's means.
        data_means: means of the data of the last RBM; the middle of their range if not given.
        facts: further facts for the metadata.
        warmup: write requests that TF-Serving runs before it answers with this model.
        generative: the RBMs below the last one as they generate data, where their weights downwards are not those
            upwards.
        equilibrium: makes samples of the last RBM, labels included, or ``None`` if it cannot: they are the start of
            models that are too large for exact samples.

    Raises:
        OSError: if it cannot be written, on a full disk, say; nothing of it is left then.

    Example:

    >>> import tempfile
    >>> rbm = tf_wcd.RBMLayer(4, seed=0)
    >>> rbm.build((None, 3))
    >>> path = tempfile.mkdtemp()
    >>> export_machines([rbm.machine()], path, gibbs_steps=10)
    >>> served = tf.saved_model.load(path).signatures["sample"]
    >>> sorted(served(seed=tf.constant([1, 2], tf.int64)))
    ['probability', 'visible']
    """
    limits = {"gibbs_steps": gibbs_steps, "max_steps": max_steps, "max_rows": max_rows}
    limits = {name: _checked_limit(name, value) for name, value in limits.items()}
    path = _checked_path(path)
    _check_stack(machines)
    for machine in machines:
        check_normaliser(machine)
    chain_start = start_of(start, data_means, machines[-1], equilibrium)
    steps, most_steps, most_rows = limits.values()
    log_partition = _log_partition(machines)
    model = ServedModel(machines, steps, most_steps, most_rows, chain_start, log_partition, generative)
    record = {**_record(machines, model), **limits, "start": chain_start.name, **(facts or {})}
    if chain_start.states is not None:
        record["start_states"] = len(chain_start.states)
    try:
        _write(path, model, record, warmup)
    except (OSError, tf.errors.OpError) as error:
        # Half an export must not be taken for a whole one.
        shutil.rmtree(path, ignore_errors=True)
        raise OSError(f"The export to {path} could not be written, and nothing of it was kept ({error})") from error


def _checked_limit(name: str, value: Any) -> int:
    if check_integer(name, value) > MOST:
        raise ValueError(f"`{name}` must be at most {MOST}. Received: {name}={value!r}")
    return int(value)


def _checked_path(path: str | Path) -> Path:
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"`path` must not exist, or be an empty folder. Received: {str(path)!r}")
    return path


def _check_stack(machines: Sequence[Machine]) -> None:
    for lower, upper in itertools.pairwise(machines):
        if lower.num_hidden != upper.num_visible - upper.visible.classes:
            raise ValueError(
                "Each RBM must have as many visible units as the one below it has hidden units. "
                f"Received: {lower.num_hidden} hidden units below {upper.num_visible} visible units"
            )


def _log_partition(machines: Sequence[Machine]) -> float | None:
    """log Z of one RBM without labels, where it can be enumerated."""
    machine = machines[0]
    if len(machines) > 1 or machine.visible.classes or not exact.is_exact(machine):
        return None
    return float(exact.log_partition_of(machine).numpy())


def _record(machines: Sequence[Machine], model: ServedModel) -> dict[str, Any]:
    """What the metadata say of the model."""
    return {
        "tf_wcd": __version__,
        "tensorflow": tf.__version__,
        "visible_units": model.machines[0].num_visible,
        "hidden_units": [machine.num_hidden for machine in machines],
        "visible_type": machines[0].visible.without_labels().name,
        "hidden_type": [machine.hidden.name for machine in machines],
        "labels": machines[-1].visible.classes,
        "log_partition": model.log_partition,
        "signatures": sorted([DEFAULT_SIGNATURE, *(row.name for row in model.signatures)]),
    }


def _write(path: Path, model: ServedModel, record: dict[str, Any], warmup: bool) -> None:
    functions = model.functions()
    default = SIGNATURES[0].name
    tf.saved_model.save(model, str(path), signatures={DEFAULT_SIGNATURE: functions[default], **functions})
    _complete(path, model, record)
    extra = path / "assets.extra"
    extra.mkdir(exist_ok=True)
    (extra / FACTS).write_text(json.dumps(record, indent=1) + "\n")
    write_manifest(path)
    if warmup:
        state = model.example_state()
        requests = {row.name: example_inputs(row, state) for row in model.signatures}
        write_warmup(extra, {DEFAULT_SIGNATURE: requests[default], **requests})


def read_facts(path: str | Path) -> dict[str, Any]:
    """What an export says of itself; empty for a SavedModel of another origin."""
    try:
        facts = json.loads((Path(path) / "assets.extra" / FACTS).read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _complete(path: Path, model: ServedModel, record: dict[str, Any]) -> None:
    """Says in the SavedModel what the graph leaves open: the shapes of the inputs, and the facts."""
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (graph,) = saved.meta_graphs
    shapes = {a.name: a.shape(model.widths) for row in model.signatures for a in row.inputs}
    for signature in graph.signature_def.values():
        for name, info in signature.inputs.items():
            info.tensor_shape.Clear()
            for size in shapes[name]:
                info.tensor_shape.dim.add(size=size)
    graph.meta_info_def.any_info.Pack(wrappers_pb2.StringValue(value=json.dumps(record)))
    file.write_bytes(saved.SerializeToString(deterministic=True))
