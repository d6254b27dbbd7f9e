"""Health, status and metadata are answered whatever else is going on."""

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2
from tensorflow_serving.config import model_server_config_pb2

from tests.serving.conftest import N_V, eventually, running

LONG = {"visible": np.zeros([1, N_V], "float32"), "seed": np.arange(1), "steps": np.full(1, 1_000_000, "int32")}
STATUS = health_pb2.HealthCheckResponse


def status(connection):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "rbm"
    return connection.models.GetModelStatus(request, timeout=20).model_version_status[0].version


def metadata(connection):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "rbm"
    return connection.prediction.GetModelMetadata(request, timeout=20).model_spec.version.value


def health(connection):
    return health_pb2_grpc.HealthStub(connection.channel).Check(health_pb2.HealthCheckRequest(), timeout=20).status


def test_all_places_for_computations_are_taken(base):
    options = {"max_running": 1, "max_waiting": 2, "rest_api_port": 0, "enable_grpc_healthcheck_service": True}
    with running(base, **options) as connection:
        request = connection.request("gibbs", **LONG)
        calls = [connection.prediction.Predict.future(request, timeout=300) for _ in range(60)]
        eventually(lambda: sum(call.done() for call in calls) >= 57)
        for _ in range(3):
            assert status(connection) == 1
            assert metadata(connection) == 1
            assert health(connection) == STATUS.SERVING
        assert {call.code() for call in calls if call.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert sum(not call.done() for call in calls) == 3
        for call in calls:
            call.cancel()


def test_health_says_whether_there_is_a_model(base):
    with running(base, rest_api_port=0, enable_grpc_healthcheck_service=True) as connection:
        assert health(connection) == STATUS.SERVING
        manager = connection.server.manager
        manager.apply(model_server_config_pb2.ModelServerConfig(model_config_list={}))
        eventually(lambda: health(connection) == STATUS.NOT_SERVING, 20)
        config = model_server_config_pb2.ModelServerConfig()
        config.model_config_list.config.add(name="rbm", base_path=str(base), model_platform="tensorflow")
        manager.apply(config)
        eventually(lambda: health(connection) == STATUS.SERVING, 20)


def test_status_has_no_large_requests_and_no_budget(base):
    with running(base, rest_api_port=0, max_bytes_in_flight=2**20) as connection:
        with connection.server.core.bytes_in_flight.hold(2**20):
            assert status(connection) == 1
        raw = connection.channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        for content, code in ((b"\x0a" + b"a" * 70_000, "INVALID_ARGUMENT"), (b"\xff\xff", "INTERNAL")):
            with pytest.raises(grpc.RpcError) as error:
                raw(content, timeout=20)
            assert error.value.code().name == code
