"""TF-Serving's two gRPC services on top of `ServerCore`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving.cancellation import Cancellation
from serving.core import ServerCore
from serving.errors import ServingError
from serving.metrics import Metrics

log = logging.getLogger("serving")
access_log = logging.getLogger("serving.access")
Response = TypeVar("Response")
SERVICES = ("", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService")
LONGEST = 1e7  # seconds; more than that is no deadline


class _Answering:
    """Converts errors to gRPC statuses, and records metrics; each request is logged if that is asked for."""

    def __init__(self, core: ServerCore, metrics: Metrics, log_requests: bool = False) -> None:
        self.core, self._metrics, self._log_requests = core, metrics, log_requests

    def answer(self, context: grpc.ServicerContext, api: str, name: str, work: Callable[[], Response]) -> Response:
        start = time.monotonic()
        code, message = grpc.StatusCode.OK, ""
        response = None
        try:
            response = work()
        except ServingError as error:
            code, message = error.code, error.message
        except Exception as error:
            log.exception("%s failed", api)
            code, message = grpc.StatusCode.INTERNAL, repr(error)[:500]
        known = name if name in self.core.manager.names() else ""
        seconds = time.monotonic() - start
        self._metrics.record(known, api, "GRPC", code.name, seconds)
        if self._log_requests:
            access_log.info("gRPC %s %s %r %s %.1f ms", context.peer(), api, name[:200], code.name, 1e3 * seconds)
        if code is not grpc.StatusCode.OK:
            context.abort(code, message)
        return response  # type: ignore[return-value]


def deadline_of(context: grpc.ServicerContext) -> float | None:
    """The time by `time.monotonic` at which the answer is due. Without a deadline gRPC reports centuries."""
    remaining = context.time_remaining()
    return None if remaining is None or remaining > LONGEST else time.monotonic() + remaining


def cancellation_of(context: grpc.ServicerContext) -> Cancellation:
    """Is cancelled when the client cancels or leaves."""
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()  # it has left already
    return cancellation


class PredictionService(_Answering, prediction_service_pb2_grpc.PredictionServiceServicer):
    """TF-Serving's methods that ask models."""

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - gRPC's name
        deadline, cancellation = deadline_of(context), cancellation_of(context)
        work = lambda: self.core.predict(request, deadline, cancellation)  # noqa: E731
        return self.answer(context, "Predict", request.model_spec.name, work)

    def GetModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        work = lambda: self.core.get_model_metadata(request)  # noqa: E731
        return self.answer(context, "GetModelMetadata", request.model_spec.name, work)

    def Classify(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        deadline, cancellation = deadline_of(context), cancellation_of(context)
        work = lambda: self.core.inference.classify(request, deadline, cancellation)  # noqa: E731
        return self.answer(context, "Classify", request.model_spec.name, work)

    def Regress(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        deadline, cancellation = deadline_of(context), cancellation_of(context)
        work = lambda: self.core.inference.regress(request, deadline, cancellation)  # noqa: E731
        return self.answer(context, "Regress", request.model_spec.name, work)

    def MultiInference(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        deadline, cancellation = deadline_of(context), cancellation_of(context)
        name = request.tasks[0].model_spec.name if request.tasks else ""
        work = lambda: self.core.inference.multi_inference(request, deadline, cancellation)  # noqa: E731
        return self.answer(context, "MultiInference", name, work)


class ModelService(_Answering, model_service_pb2_grpc.ModelServiceServicer):
    """Status of the models, and their configuration."""

    def GetModelStatus(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        work = lambda: self.core.get_model_status(request)  # noqa: E731
        return self.answer(context, "GetModelStatus", request.model_spec.name, work)

    def HandleReloadConfigRequest(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self.answer(context, "HandleReloadConfigRequest", "", lambda: self.core.reload_config(request))


class HealthService(health_pb2_grpc.HealthServicer):
    """SERVING as long as there is a model that answers.

    There is no Watch: its streams would have to be kept, and clients that do not read would hold them up.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._stopping = False

    def stop(self) -> None:
        """NOT_SERVING from now on."""
        self._stopping = True

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        if request.service not in SERVICES:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Unknown service {request.service[:200]!r}")
        manager = self._core.manager
        serving = not self._stopping and len(manager.missing()) < len(manager.names())
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if serving else states.NOT_SERVING)
