"""Warm-up requests: what TF-Serving runs on a new version before it answers with it.

They are records of the message `tensorflow.serving.PredictionLog`. The few fields that are needed are written here as
bytes, so that an export needs no package of TF-Serving's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from tf_wcd.export.wire_format import field

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
    model_spec = field(3, signature.encode())
    request = field(1, model_spec)
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += field(2, field(1, name.encode()) + field(2, tensor))
    return field(6, field(1, request))
