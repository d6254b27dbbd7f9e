"""A request's inputs, checked by what they declare before any memory is taken for them.

A message of a hundred bytes can declare a tensor of gigabytes: one value that stands for all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from serving.errors import invalid
from serving.tensors import Declared, declared, to_array

SAMPLE_ROWS = 1000  # that clients may always ask `sample` for, however many steps its chains make: a client's chunk
SEED, STEPS = "seed", "steps"  # inputs of our exports that run chains, and of those that say for how long


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Inputs that may be computed with.

    Attributes:
        protos: the messages, by the names of the graph's tensors.
        size: bytes of the arrays, and of the answer where it can be told: of its arrays and of its message.
        steps: Gibbs steps of the longest row, what the time of a request depends on; ``None`` where they are not known.
        work: rows times steps.
    """

    protos: Mapping[str, tuple[str, tensor_pb2.TensorProto]]
    size: int
    steps: int | None = None
    work: int = 0

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by the names of the graph's tensors. This is what takes memory."""
        return {name: to_array(proto, alias) for name, (alias, proto) in self.protos.items()}


def read_inputs(
    signature: meta_graph_pb2.SignatureDef,
    request: predict_pb2.PredictRequest,
    facts: Mapping[str, Any],
    max_row_steps: int,
) -> Inputs:
    """The inputs of a request, checked against the signature.

    Shapes of our own exports are checked here. Those of other models are for the graph to check: TF-Serving lets a
    vector pass where the signature has a matrix.

    Args:
        signature: what the model takes.
        request: what was sent.
        facts: what our exports say of themselves; empty for another model.
        max_row_steps: the most rows times steps of one request.

    Raises:
        ServingError: INVALID_ARGUMENT if the model cannot take them.
    """
    _check_names(signature, set(request.inputs))
    protos, shapes = {}, {}
    for alias, info in signature.inputs.items():
        proto = request.inputs[alias] if alias in request.inputs else signature.defaults[alias]
        shapes[alias] = declared(proto, alias)
        if proto.dtype != info.dtype:
            raise invalid(
                f"tensor type mismatch: {alias} must be {types_pb2.DataType.Name(info.dtype)}, "
                f"but {types_pb2.DataType.Name(proto.dtype)} was sent"
            )
        protos[info.name] = alias, proto
    size = sum(tensor.size for tensor in shapes.values())
    max_rows = facts.get("max_rows")
    if not isinstance(max_rows, int):
        return Inputs(protos, size)
    rows = _check_shapes(signature, shapes, max_rows)
    if STEPS in shapes:  # the most of any row: the others wait for it
        steps = int(np.max(to_array(request.inputs[STEPS], STEPS), initial=0))
    else:
        steps = int(facts.get("gibbs_steps", 0)) if SEED in shapes else 0
        max_row_steps = max(max_row_steps, SAMPLE_ROWS * steps)
    if rows * steps > max_row_steps:
        raise invalid(
            f"rows times steps may be at most {max_row_steps} in a request, the limit of this server "
            f"(--max_row_steps). Received: {rows} rows of up to {steps} steps"
        )
    return Inputs(protos, size + 2 * rows * _row_bytes(signature.outputs), steps, rows * max(0, steps))


def _check_names(signature: meta_graph_pb2.SignatureDef, sent: set[str]) -> None:
    wanted, optional = set(signature.inputs), set(signature.defaults)
    if sent - wanted or wanted - sent - optional:
        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(wanted)} "
            f"len({{{','.join(sorted(sent))}}}) != len({{{','.join(sorted(wanted))}}}). "
            f"Sent extra: {{{','.join(sorted(sent - wanted))}}}. "
            f"Missing but required: {{{','.join(sorted(wanted - sent - optional))}}}."
        )


def _check_shapes(signature: meta_graph_pb2.SignatureDef, shapes: Mapping[str, Declared], max_rows: int) -> int:
    """Rank, fixed axes and rows of an export of ours, with the words of the graph's own checks; returns the rows."""
    fixed = {alias: [dim.size for dim in signature.inputs[alias].tensor_shape.dim][1:] for alias in shapes}
    for alias, (shape, _, _) in shapes.items():
        if not shape or shape[1:] != fixed[alias]:
            wanted = ", ".join(["rows", *map(str, fixed[alias])])
            raise invalid(f"{alias} must have the shape [{wanted}]. Received: {shape}")
    # The graph counts rows in the widest input.
    first = max(shapes, key=lambda alias: (len(fixed[alias]), alias == "visible", alias))
    rows = shapes[first].shape[0]
    if rows > max_rows:
        raise invalid(
            f"a batch may have at most {max_rows} rows, the limit set when the model was exported. Received: {rows}"
        )
    for alias, (shape, _, _) in shapes.items():
        if shape[0] != rows:
            message = "have as many rows as" if fixed[alias] else "have one entry for each row of"
            raise invalid(f"{alias} must {message} {first}. Received: {shape[0]} and {rows}")
    return rows


def _row_bytes(outputs: Mapping[str, meta_graph_pb2.TensorInfo]) -> int:
    """Bytes of a row of the answer."""
    shapes = [(tf.as_dtype(info.dtype).size, [dim.size for dim in info.tensor_shape.dim]) for info in outputs.values()]
    return sum(size * math.prod(max(1, length) for length in shape[1:]) for size, shape in shapes)
