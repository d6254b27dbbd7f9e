"""A server's answers as a client reads them: arrays, states and numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from serving.tensors import to_array


class Classes(NamedTuple):
    """The answer of `classify`.

    Attributes:
        label: the most probable class of each row, ``[n]``.
        log_prob: logarithm of the probability of each class, ``[n, classes]``.
    """

    label: np.ndarray
    log_prob: np.ndarray


def width_of(metadata: get_model_metadata_pb2.GetModelMetadataResponse) -> int:
    """Number of visible units, from the signatures."""
    table = get_model_metadata_pb2.SignatureDefMap()
    metadata.metadata["signature_def"].Unpack(table)
    if "sample" not in table.signature_def:
        raise ValueError(f"The model has no signature `sample`. Received: {sorted(table.signature_def)}")
    return int(table.signature_def["sample"].outputs["visible"].tensor_shape.dim[1].size)


def arrays_of(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    return {name: to_array(proto, name) for name, proto in response.outputs.items()}


def states_of(response: get_model_status_pb2.GetModelStatusResponse) -> dict[int, str]:
    names = get_model_status_pb2.ModelVersionStatus.State
    return {entry.version: names.Name(entry.state) for entry in response.model_version_status}
