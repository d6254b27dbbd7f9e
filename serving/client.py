"""Clients that ask a server for samples, TF-Serving or the embedded one.

Every request carries its seeds, so that a request that is sent again gets the same answer: a client that retries loses
nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.answers import Classes, arrays_of, states_of, width_of
from serving.attempts import Attempts
from serving.tensors import to_proto
from tf_wcd.export.table import input_types

# Bytes of one answer with samples: a stream arrives in chunks, and gRPC's clients accept 4 MB by default.
CHUNK_BYTES = 3 * 2**20
MAX_CHUNK = 1000  # rows; the default limit of servers that batch
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # No limit: an answer above it fails with RESOURCE_EXHAUSTED, and would be computed again at each attempt.
    ("grpc.max_receive_message_length", -1),
]


def row_seeds(seed: int | None, count: int, first: int = 0) -> np.ndarray:
    """A seed for each row. Those of the same seed do not depend on how many rows there are.

    Example:

    >>> bool((row_seeds(7, 10)[4:] == row_seeds(7, 6, first=4)).all())
    True
    """
    if seed is None:
        seed = random.SystemRandom().getrandbits(63)
    mask = 2**64 - 1
    word = (int(seed) * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & mask
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = ((word ^ word >> shift) * factor) & mask
    word = (word ^ word >> 31) + first
    with np.errstate(over="ignore"):
        return (np.uint64(word & mask) + np.arange(count, dtype="uint64")).view("int64")


class _Requests:
    """What both clients share: the connection, the requests and the answers."""

    def __init__(
        self,
        address: str,
        model_name: str = "default",
        version: int | None = None,
        label: str | None = None,
        timeout: float = 60.0,
        credentials: grpc.ChannelCredentials | None = None,
        max_rows: int = MAX_CHUNK,
    ) -> None:
        if version is not None and label is not None:
            raise ValueError(f"Pass a version or a label, not both. Received: version={version!r}, label={label!r}")
        if isinstance(max_rows, bool) or int(max_rows) != max_rows or max_rows < 1:
            raise ValueError(f"`max_rows` must be an integer of at least 1. Received: max_rows={max_rows!r}")
        self.address, self.timeout, self.max_rows = address, float(timeout), int(max_rows)
        self._credentials = credentials
        self._spec = model_pb2.ModelSpec(name=model_name)
        if version is not None:
            self._spec.version.value = version
        if label is not None:
            self._spec.version_label = label
        self._width: int | None = None

    def _connect(self, channels: Any) -> None:
        """Opens the connection.

        Args:
            channels: the module that makes channels, `grpc` or `grpc.aio`.
        """
        self._channel = (
            channels.insecure_channel(self.address, _CHANNEL)
            if self._credentials is None
            else channels.secure_channel(self.address, self._credentials, _CHANNEL)
        )
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def request(
        self, signature: str, arrays: Mapping[str, Any], outputs: tuple[str, ...] = ()
    ) -> predict_pb2.PredictRequest:
        spec = model_pb2.ModelSpec()
        spec.CopyFrom(self._spec)
        spec.signature_name = signature
        request = predict_pb2.PredictRequest(model_spec=spec, output_filter=outputs)
        types = input_types()
        for name, value in arrays.items():
            request.inputs[name].CopyFrom(to_proto(np.asarray(value, types.get(name, "float32"))))
        return request

    def metadata_request(self) -> get_model_metadata_pb2.GetModelMetadataRequest:
        return get_model_metadata_pb2.GetModelMetadataRequest(model_spec=self._spec, metadata_field=["signature_def"])

    def status_request(self) -> get_model_status_pb2.GetModelStatusRequest:
        return get_model_status_pb2.GetModelStatusRequest(model_spec=self._spec)

    @staticmethod
    def chain_inputs(visible: Any, steps: Any, seed: Any) -> dict[str, np.ndarray]:
        rows = np.atleast_2d(np.asarray(visible, "float32"))
        seeds = row_seeds(seed, len(rows)) if np.ndim(seed) == 0 else np.asarray(seed)
        return {"visible": rows, "seed": seeds, "steps": np.broadcast_to(np.asarray(steps, "int32"), len(rows))}

    def clamp_inputs(self, visible: Any, mask: Any, steps: Any, seed: Any) -> dict[str, np.ndarray]:
        inputs = self.chain_inputs(visible, steps, seed)
        return {**inputs, "mask": np.broadcast_to(np.asarray(mask, "float32"), inputs["visible"].shape)}

    def sample_requests(self, count: int, seed: int | None, width: int) -> Iterator[predict_pb2.PredictRequest]:
        """The requests for so many samples, each for one chunk."""
        if seed is None:
            seed = random.SystemRandom().getrandbits(63)
        for first, rows in self.chunks(count, width):
            yield self.request("sample", {"seed": row_seeds(seed, rows, first)}, ("visible",))

    def conditional_requests(
        self, labels: Any, count: int | None, seed: int | None, width: int
    ) -> Iterator[predict_pb2.PredictRequest]:
        """The requests for samples of given classes, each for one chunk."""
        count = int(np.size(labels)) if count is None else count
        wanted = np.broadcast_to(np.asarray(labels, "int64"), [count])
        if seed is None:
            seed = random.SystemRandom().getrandbits(63)
        for first, rows in self.chunks(count, width):
            inputs = {"label": wanted[first : first + rows], "seed": row_seeds(seed, rows, first)}
            yield self.request("conditional", inputs, ("visible",))

    def chunks(self, count: int, width: int) -> Iterator[tuple[int, int]]:
        """First row and number of rows of each request."""
        if isinstance(count, bool) or int(count) != count or count < 1:
            raise ValueError(f"The number of samples must be an integer of at least 1. Received: {count!r}")
        size = max(1, min(self.max_rows, CHUNK_BYTES // (4 * width)))
        for first in range(0, int(count), size):
            yield first, min(size, int(count) - first)


class SamplerClient(_Requests):
    """A client for one model of a server.

    Args:
        address: ``"host:port"`` of gRPC.
        model_name: name of the model.
        version: a version to ask for; the newest if not given.
        label: a version label to ask for instead.
        timeout: seconds for each request, all its attempts together.
        credentials: of gRPC, for a server with TLS.
        max_rows: the most rows that `sample` asks for in one request; not more than the ``max_batch_size`` of a server
            that batches.

    Raises:
        SamplerError: by each method, with one sentence, if the server refuses a request or does not answer in time.
    """

    def __init__(self, address: str, model_name: str = "default", **kwargs: Any) -> None:
        super().__init__(address, model_name, **kwargs)
        self._connect(grpc)

    def sample(self, num_samples: int, seed: int | None = None) -> np.ndarray:
        """Visible states, ``[num_samples, visible units]``; the same ones each time for the same seed."""
        return np.concatenate(list(self.stream(num_samples, seed)))

    def stream(self, num_samples: int, seed: int | None = None) -> Iterator[np.ndarray]:
        """The rows of `sample` in chunks, as they arrive."""
        for request in self.sample_requests(num_samples, seed, self.num_visible()):
            yield arrays_of(self._call(self._prediction.Predict, request))["visible"]

    def gibbs(self, visible: Any, steps: int = 1, seed: Any = None) -> np.ndarray:
        """States after ``steps`` Gibbs steps from the given ones."""
        return self.predict("gibbs", outputs=("visible",), **self.chain_inputs(visible, steps, seed))["visible"]

    def clamp(self, visible: Any, mask: Any, steps: int = 100, seed: Any = None) -> np.ndarray:
        """As `gibbs`, with the units clamped where the mask is 1."""
        inputs = self.clamp_inputs(visible, mask, steps, seed)
        return self.predict("clamp", outputs=("visible",), **inputs)["visible"]

    def encode(self, visible: Any) -> np.ndarray:
        """E[h | x]."""
        return self.predict("encode", visible=visible)["hidden"]

    def free_energy(self, visible: Any) -> np.ndarray:
        """F of each row, ``[n]``."""
        return self.predict("free_energy", visible=visible)["free_energy"]

    def log_prob(self, visible: Any) -> np.ndarray:
        """Exact log-probabilities, ``[n]``, if the model has this signature."""
        return self.predict("log_prob", visible=visible)["log_prob"]

    def conditional(self, label: Any, num_samples: int | None = None, seed: int | None = None) -> np.ndarray:
        """Samples of given classes, from a model with labels.

        Args:
            label: the class of each sample, or one for all of them.
            num_samples: how many; as many as there are labels if not given.
            seed: as for `sample`.
        """
        requests = self.conditional_requests(label, num_samples, seed, self.num_visible())
        answers = (self._call(self._prediction.Predict, request) for request in requests)
        return np.concatenate([arrays_of(answer)["visible"] for answer in answers])

    def classify(self, visible: Any) -> Classes:
        """The classes of data, from a model with labels."""
        return Classes(**self.predict("classify", visible=visible))

    def predict(self, signature: str, outputs: tuple[str, ...] = (), **arrays: Any) -> dict[str, np.ndarray]:
        """Any signature: arrays in, arrays out."""
        return arrays_of(self._call(self._prediction.Predict, self.request(signature, arrays, outputs)))

    def num_visible(self) -> int:
        """Number of visible units, asked of the server once."""
        if self._width is None:
            self._width = width_of(self._call(self._prediction.GetModelMetadata, self.metadata_request()))
        return self._width

    def status(self) -> dict[int, str]:
        """State of each version."""
        return states_of(self._call(self._model.GetModelStatus, self.status_request()))

    def _call(self, method: Any, request: Any) -> Any:
        attempts = Attempts(self.timeout)
        while True:
            try:
                return method(request, timeout=attempts.remaining())
            except grpc.RpcError as error:
                time.sleep(attempts.pause_after(error))

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> SamplerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSamplerClient(_Requests):
    """`SamplerClient` for asyncio: the same methods, to be awaited."""

    def __init__(self, address: str, model_name: str = "default", **kwargs: Any) -> None:
        super().__init__(address, model_name, **kwargs)
        self._connect(grpc.aio)

    async def sample(self, num_samples: int, seed: int | None = None) -> np.ndarray:
        """As `SamplerClient.sample`."""
        return np.concatenate([chunk async for chunk in self.stream(num_samples, seed)])

    async def stream(self, num_samples: int, seed: int | None = None) -> AsyncIterator[np.ndarray]:
        """As `SamplerClient.stream`."""
        for request in self.sample_requests(num_samples, seed, await self.num_visible()):
            yield arrays_of(await self._call(self._prediction.Predict, request))["visible"]

    async def gibbs(self, visible: Any, steps: int = 1, seed: Any = None) -> np.ndarray:
        """As `SamplerClient.gibbs`."""
        return (await self.predict("gibbs", outputs=("visible",), **self.chain_inputs(visible, steps, seed)))["visible"]

    async def clamp(self, visible: Any, mask: Any, steps: int = 100, seed: Any = None) -> np.ndarray:
        """As `SamplerClient.clamp`."""
        inputs = self.clamp_inputs(visible, mask, steps, seed)
        return (await self.predict("clamp", outputs=("visible",), **inputs))["visible"]

    async def encode(self, visible: Any) -> np.ndarray:
        """As `SamplerClient.encode`."""
        return (await self.predict("encode", visible=visible))["hidden"]

    async def free_energy(self, visible: Any) -> np.ndarray:
        """As `SamplerClient.free_energy`."""
        return (await self.predict("free_energy", visible=visible))["free_energy"]

    async def log_prob(self, visible: Any) -> np.ndarray:
        """As `SamplerClient.log_prob`."""
        return (await self.predict("log_prob", visible=visible))["log_prob"]

    async def conditional(self, label: Any, num_samples: int | None = None, seed: int | None = None) -> np.ndarray:
        """As `SamplerClient.conditional`."""
        requests = self.conditional_requests(label, num_samples, seed, await self.num_visible())
        answers = [await self._call(self._prediction.Predict, request) for request in requests]
        return np.concatenate([arrays_of(answer)["visible"] for answer in answers])

    async def classify(self, visible: Any) -> Classes:
        """As `SamplerClient.classify`."""
        return Classes(**await self.predict("classify", visible=visible))

    async def predict(self, signature: str, outputs: tuple[str, ...] = (), **arrays: Any) -> dict[str, np.ndarray]:
        """As `SamplerClient.predict`."""
        return arrays_of(await self._call(self._prediction.Predict, self.request(signature, arrays, outputs)))

    async def num_visible(self) -> int:
        """As `SamplerClient.num_visible`."""
        if self._width is None:
            self._width = width_of(await self._call(self._prediction.GetModelMetadata, self.metadata_request()))
        return self._width

    async def status(self) -> dict[int, str]:
        """As `SamplerClient.status`."""
        return states_of(await self._call(self._model.GetModelStatus, self.status_request()))

    async def _call(self, method: Any, request: Any) -> Any:
        attempts = Attempts(self.timeout)
        while True:
            try:
                return await method(request, timeout=attempts.remaining())
            except grpc.RpcError as error:
                await asyncio.sleep(attempts.pause_after(error))

    async def close(self) -> None:
        """As `SamplerClient.close`."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncSamplerClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
