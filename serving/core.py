"""The server's answers, independent of the protocol: requests in, responses out, `ServingError` for errors."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import grpc
import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_pb2,
    predict_pb2,
)

from serving.admission import Admission, ByteBudget, Limits, WorkBudget
from serving.batching import Batcher
from serving.cancellation import Cancellation
from serving.errors import ServingError, deadline_exceeded, invalid, no_memory
from serving.inference import DEFAULT_SIGNATURE, METHODS, Inference, model_spec
from serving.inputs import read_inputs
from serving.manager import ModelManager
from serving.servable import Servable
from serving.tensors import check_types, fill


class ServerCore:
    """The models, and the requests that they answer.

    Args:
        manager: the models.
        admission: limits the requests that run and wait, if there is no batching.
        batcher: joins requests into batches, if batching is on.
        limits: what one request, and all together, may ask for.
        check_method_names: signatures answer only the methods that their names of methods say.

    Attributes:
        bytes_in_flight: memory of the requests at hand. Whoever reads a request holds its bytes here, before it is
            parsed and until it is answered; its tensors are added when they are known.
        work_in_flight: rows times steps of the requests at hand.
    """

    def __init__(
        self,
        manager: ModelManager,
        admission: Admission,
        batcher: Batcher | None = None,
        limits: Limits | None = None,
        check_method_names: bool = False,
    ) -> None:
        self.manager, self._admission, self._batcher = manager, admission, batcher
        self._check_method_names = check_method_names
        self.limits = limits or Limits()
        self.bytes_in_flight = ByteBudget(self.limits.max_bytes_in_flight)
        self.work_in_flight = WorkBudget(self.limits.max_row_steps_in_flight)
        self.inference = Inference(manager, self._run, self.bytes_in_flight, check_method_names)
        self._wanted: set[Cancellation] = set()
        self._stopping = False
        self._lock = threading.Lock()

    # Predict

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> predict_pb2.PredictResponse:
        """Runs a signature, and answers with a message.

        Args:
            deadline: time by `time.monotonic` at which the answer is due.
            cancellation: is cancelled when nobody wants the answer any more; the computation stops then.
        """
        with self._answer(request, deadline, cancellation) as (spec, arrays):
            response = predict_pb2.PredictResponse(model_spec=spec)
            for name in list(arrays):
                fill(response.outputs[name], arrays.pop(name))
        return response

    def outputs(
        self,
        request: predict_pb2.PredictRequest,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> dict[str, np.ndarray]:
        """As `predict`, but the arrays themselves, by name."""
        with self._answer(request, deadline, cancellation) as (_, arrays):
            return arrays

    @contextlib.contextmanager
    def _answer(
        self, request: predict_pb2.PredictRequest, deadline: float | None, cancellation: Cancellation | None
    ) -> Iterator[tuple[model_pb2.ModelSpec, dict[str, np.ndarray]]]:
        """Which version and signature answer, and their arrays, while the request's memory and work are counted."""
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        with self.manager.lease(request.model_spec) as servable:
            name = request.model_spec.signature_name or DEFAULT_SIGNATURE
            signature = servable.signatures.get(name)
            if signature is None:
                raise ServingError(grpc.StatusCode.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
            if self._check_method_names and signature.method_name not in METHODS.values():
                raise ServingError(
                    grpc.StatusCode.INTERNAL,
                    f"Expected prediction signature method_name to be one of {{{', '.join(METHODS.values())}}}. "
                    f"Was: {signature.method_name}",
                )
            inputs = read_inputs(signature, request, servable.facts, self.limits.max_row_steps)
            aliases = _outputs(signature, request.output_filter)
            fetches = [signature.outputs[alias].name for alias in aliases]
            with self.bytes_in_flight.hold(inputs.size), self.work_in_flight.hold(inputs.work):
                found = self._run(servable, inputs.arrays, fetches, deadline, cancellation, inputs.steps)
                arrays = dict(zip(aliases, found, strict=True))
                del found  # whoever takes an array out has the last one
                check_types(arrays)
                yield model_spec(servable, name), arrays

    def _run(
        self,
        servable: Servable,
        feeds: Callable[[], Mapping[str, np.ndarray]],
        fetches: Sequence[str],
        deadline: float | None,
        cancellation: Cancellation | None = None,
        steps: int | None = None,
    ) -> list[np.ndarray]:
        """Runs a graph as soon as there is room; ``feeds`` is called, and takes its memory, only then."""
        deadline, cancellation = self.limits.deadline(deadline), cancellation or Cancellation()
        if time.monotonic() >= deadline:
            raise deadline_exceeded()
        with self._lock:
            if self._stopping:
                raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server is shutting down")
            self._wanted.add(cancellation)
        try:
            if self._batcher is not None:
                return self._batcher.run(servable, feeds(), fetches, deadline, cancellation, steps)
            with self._admission.slot(deadline, cancellation):
                return servable.run(feeds(), fetches, deadline, cancellation, steps)
        except MemoryError:
            raise no_memory() from None
        finally:
            with self._lock:
                self._wanted.discard(cancellation)

    def cancel_all(self) -> None:
        """Stops all computations, and refuses further ones."""
        with self._lock:
            self._stopping = True
            wanted = list(self._wanted)
        for cancellation in wanted:
            cancellation.cancel()

    def input_types(self, spec: model_pb2.ModelSpec) -> dict[str, int]:
        """Type of each input of a signature, which JSON does not say."""
        with self.manager.lease(spec) as servable:
            name = spec.signature_name or DEFAULT_SIGNATURE
            signature = servable.signatures.get(name)
            if signature is None:
                raise invalid(f'Serving signature name: "{name}" not found in signature def')
            return {key: info.dtype for key, info in sorted(signature.inputs.items())}

    # The other methods

    def get_model_metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        with self.manager.lease(request.model_spec) as servable:
            table = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in servable.signatures.items():
                table.signature_def[name].CopyFrom(signature)
            response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=model_spec(servable))
        response.metadata["signature_def"].Pack(table)
        return response

    def get_model_status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        response = get_model_status_pb2.GetModelStatusResponse()
        for version, status in self.manager.status(request.model_spec):
            entry = response.model_version_status.add(version=version, state=status.state)
            entry.status.error_code = status.code
            entry.status.error_message = status.message
        return response

    def reload_config(
        self, request: model_management_pb2.ReloadConfigRequest
    ) -> model_management_pb2.ReloadConfigResponse:
        """Replaces the list of models. As in TF-Serving, an error is part of the answer."""
        response = model_management_pb2.ReloadConfigResponse()
        try:
            self.manager.reload(request.config)
        except ServingError as error:
            if error.code is grpc.StatusCode.PERMISSION_DENIED:
                raise
            response.status.error_code = error.code.value[0]
            response.status.error_message = error.message
        return response


def _outputs(signature: meta_graph_pb2.SignatureDef, chosen: Sequence[str]) -> list[str]:
    for alias in chosen:
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{','.join(sorted(signature.outputs))}}}."
            )
        if list(chosen).count(alias) > 1:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return sorted(chosen or signature.outputs)  # TensorFlow keeps something for each order
