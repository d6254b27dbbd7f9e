"""Warm-up requests: what TF-Serving runs on a new version before it answers with it.

They are records of the message `tensorflow.serving.PredictionLog`. The few fields that are needed are written here as
bytes, so that an export needs no package of TF-Serving's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

FILE = "tf_serving_warmup_requests"


def write_warmup(folder: Path, requests: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Writes one request for each signature.

    Args:
        folder: the SavedModel's ``assets.extra``.
        requests: inputs by name, by signature.
    """
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        for signature, inputs in requests.items():
            writer.write(prediction_log(signature, inputs))


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """A `PredictionLog` with one request to predict."""
    model_spec = _field(3, signature.encode())
    request = _field(1, model_spec)
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, a string or a message, in the wire format of protocol buffers."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
