"""One loaded version of a model."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import prediction_log_pb2

from serving.c_library import SessionError
from serving.cancellation import Cancellation
from serving.errors import ServingError, status_of
from serving.stopping import StoppableSession
from serving.tensors import to_array
from tf_wcd.export.saved_model import read_facts

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_WARMUP_RECORDS = 1000


class Servable:
    """A version in memory, with the number of requests that use it.

    Args:
        name: of the model.
        version: its number.
        path: folder of the SavedModel.
        warmup: run the warm-up requests of the SavedModel; one that fails makes the load fail.
        cancellation: ends the warm-up if it is cancelled; then the load fails.
    """

    def __init__(
        self, name: str, version: int, path: Path, warmup: bool = True, cancellation: Cancellation | None = None
    ) -> None:
        self.name, self.version, self.path = name, version, path
        self.facts: dict[str, Any] = read_facts(path)
        self._session = StoppableSession(path)
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = dict(self._session.meta_graph.signature_def)
        self.signatures.pop("__saved_model_init_op", None)
        self._users = 0
        self._unused = threading.Condition()
        try:
            if warmup:
                self._warm_up(cancellation)
        except BaseException:
            self._session.close()
            raise

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
        steps: int | None = None,
    ) -> list[np.ndarray]:
        """Runs the graph: arrays by names of tensors.

        Args:
            deadline: time by `time.monotonic` at which the run stops.
            cancellation: stops the run if it is cancelled.
            steps: what its time depends on, besides its rows; ``None`` if that is not known.

        Raises:
            ServingError: with TensorFlow's code and text.
        """
        try:
            return self._session.run(feeds, fetches, deadline, cancellation, steps)
        except SessionError as error:
            raise ServingError(status_of(error.code), error.message) from None

    def acquire(self) -> None:
        """Counts one more request that uses the version."""
        with self._unused:
            self._users += 1

    def release(self) -> None:
        """Counts one request less."""
        with self._unused:
            self._users -= 1
            self._unused.notify_all()

    def close_when_unused(self, timeout: float | None = None) -> bool:
        """Frees the memory when no request uses it; False if one still does after ``timeout`` seconds, if given."""
        with self._unused:
            if not self._unused.wait_for(lambda: self._users == 0, timeout):
                return False
        self._session.close()
        return True

    def _warm_up(self, cancellation: Cancellation | None) -> None:
        file = self.path / WARMUP_FILE
        if not file.exists():
            return
        for record in tf.data.TFRecordDataset(str(file)).take(MAX_WARMUP_RECORDS).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if not log.HasField("predict_log"):
                continue
            request = log.predict_log.request
            signature = self.signatures[request.model_spec.signature_name or "serving_default"]
            feeds = {signature.inputs[key].name: to_array(proto, key) for key, proto in request.inputs.items()}
            self.run(feeds, [info.name for info in signature.outputs.values()], None, cancellation)
