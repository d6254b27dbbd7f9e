"""Requests of any content: no crash, no hang, no growth, and a status that says whose fault it was."""

import http.client
import json
import socket

import grpc
import numpy as np
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from serving.tensors import to_proto
from tests.serving.conftest import N_V, put
from tests.support.processes import serving_process

SIGNATURES = ["", "sample", "gibbs", "clamp", "encode", "free_energy", "log_prob", "x", "\0", "é" * 50]
INPUTS = ["visible", "seed", "steps", "mask", "x", ""]
DTYPES = ["float32", "float64", "int32", "int64", "bool", "uint8", "int8", "uint64"]
METHODS = [
    "PredictionService/Predict",
    "PredictionService/GetModelMetadata",
    "PredictionService/Classify",
    "PredictionService/MultiInference",
    "ModelService/GetModelStatus",
    "NoService/None",
]
CLIENT_FAULTS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
ODD = np.array([0, 1, -1, np.nan, np.inf, -np.inf, 0.5, 1e30, -1e-30, 2**31, -(2**63)])


def array(rng):
    rank = rng.integers(0, 4)
    shape = [int(rng.choice([0, 1, 2, 3, N_V, N_V + 1])) for _ in range(rank)]
    with np.errstate(all="ignore"):
        return np.asarray(rng.choice(ODD, shape)).astype(rng.choice(DTYPES))


def good(rng):
    rows = int(rng.integers(0, 5))
    return {
        "visible": rng.integers(0, 2, (rows, N_V)).astype("float32"),
        "seed": rng.integers(-(2**63), 2**63, rows),
        "steps": rng.integers(0, 5, rows).astype("int32"),
        "mask": rng.integers(0, 2, (rows, N_V)).astype("float32"),
    }


NEEDED = {"gibbs": ["visible", "seed", "steps"], "clamp": ["visible", "mask", "seed", "steps"], "encode": ["visible"],
          "free_energy": ["visible"], "log_prob": ["visible"]}  # fmt: skip


def fuzzed(rng) -> predict_pb2.PredictRequest:
    """A good request with a few things gone wrong."""
    request = predict_pb2.PredictRequest()
    signature = str(rng.choice(SIGNATURES))
    if rng.random() < 0.95:
        request.model_spec.name = str(rng.choice(["rbm", "rbm", "rbm", "rbm", "y", ""]))
        request.model_spec.signature_name = signature
    if rng.random() < 0.1:
        request.model_spec.version.value = int(rng.choice([1, 7, -1, 2**62]))
    elif rng.random() < 0.05:
        request.model_spec.version_label = "label"
    arrays = good(rng)
    for key in NEEDED.get(signature, ["seed"]):
        request.inputs[key].CopyFrom(to_proto(arrays[key]))
    for _ in range(int(rng.integers(0, 3))):
        key = str(rng.choice(INPUTS))
        request.inputs[key].CopyFrom(to_proto(array(rng)))
        proto = request.inputs[key]
        kind = rng.random()
        if kind < 0.2 and proto.tensor_shape.dim:
            proto.tensor_shape.dim[0].size = int(rng.choice([2**40, -1, 2**62, 10**6, 5]))
        elif kind < 0.3:
            proto.tensor_content = rng.bytes(int(rng.integers(0, 40)))
        elif kind < 0.4:
            proto.dtype = int(rng.choice([*types_pb2.DataType.values(), 77]))
        elif kind < 0.45:
            proto.tensor_shape.unknown_rank = True
    if rng.random() < 0.1:
        request.output_filter.extend([str(rng.choice(["visible", "hidden", "x"])) for _ in range(2)])
    return request


def raw_call(connection, method, content):
    call = connection.channel.unary_unary(f"/tensorflow.serving.{method}")
    try:
        call(content, timeout=20)
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


def http_call(port, rng):
    paths = ["/v1/models/rbm:predict", "/v1/models/rbm", "/v1/models/rbm/metadata", "/", "/v1/models/%00:predict",
             "/v1/models/rbm/versions/1:predict", "/v1/models/rbm:classify", "/" + "a" * 3000]  # fmt: skip
    values = [0, 1, -1, 1.5, None, True, "a", [], {}, [[1], [2, 3]], float("nan"), 2**70, [0.0] * N_V, {"b64": "YQ=="}]
    pick = lambda: values[rng.integers(len(values))]  # noqa: E731
    body: object = {
        "signature_name": [*SIGNATURES, 3][rng.integers(len(SIGNATURES) + 1)],
        ["instances", "inputs"][rng.integers(2)]: [
            pick(),
            [pick() for _ in range(3)],
            {key: pick() for key in INPUTS[: rng.integers(1, 5)]},
            [{key: pick() for key in INPUTS[: rng.integers(1, 5)]}],
        ][rng.integers(4)],
    }
    text = json.dumps(body).encode()
    if rng.random() < 0.2:
        text = rng.bytes(int(rng.integers(0, 200)))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(str(rng.choice(["POST", "POST", "GET"])), str(rng.choice(paths)), text)
        return connection.getresponse().status
    finally:
        connection.close()


def raw_http(port, rng):
    """Bytes that are no HTTP at all."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        post = b"POST /v1/models/rbm:predict HTTP/1.1\r\nContent-Length: "
        lines = [
            rng.bytes(50),
            b"GET / HTTP/9.9\r\n\r\n",
            post + b"x\r\n\r\n",
            post + b"9999999999\r\n\r\n",
            post + 5000 * b"9" + b"\r\n\r\n",
            b"\r\n\r\n",
        ]
        connection.sendall(lines[rng.integers(len(lines))])
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def fuzz(library, tmp_path, count, *flags):
    put(library[0], tmp_path / "rbm", 1)
    rng = np.random.default_rng(count)
    with serving_process(
        "--port=-1", "--rest_api_port=-1", "--model_name=rbm", f"--model_base_path={tmp_path}/rbm", *flags
    ) as process:
        connection = process.wait_until_serving()
        fine = connection.predict("sample", seed=np.arange(5))["visible"]
        memory = []
        for number in range(count):
            kind = rng.random()
            if kind < 0.6:
                code = raw_call(connection, "PredictionService/Predict", fuzzed(rng).SerializeToString())
                assert code in CLIENT_FAULTS, code
            elif kind < 0.75:
                good_bytes = fuzzed(rng).SerializeToString()
                cut = bytearray(rng.bytes(int(rng.integers(0, 100))) if rng.random() < 0.5 else good_bytes)
                for _ in range(int(rng.integers(0, 4))):
                    if cut:
                        cut[rng.integers(len(cut))] = rng.integers(256)
                code = raw_call(connection, str(rng.choice(METHODS)), bytes(cut))
                # What is no message at all never comes to the server: gRPC itself says so.
                assert code in {*CLIENT_FAULTS, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED}, code
            elif kind < 0.97:
                status = http_call(connection.rest_port, rng)
                assert status in (200, 400, 404, 414, 429, 504), status
            else:
                raw_http(connection.rest_port, rng)
            if number % max(1, count // 40) == 0:
                memory.append(process.memory_megabytes())
        memory.append(process.memory_megabytes())
        assert process.process.poll() is None
        np.testing.assert_array_equal(connection.predict("sample", seed=np.arange(5))["visible"], fine)
        assert "failed\n" not in process.log.replace("Looking for versions failed", ""), process.log[-3000:]
    return memory


def test_fuzzed_requests(library, tmp_path):
    fuzz(library, tmp_path, 400)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_10000_fuzzed_requests(library, tmp_path, flags):
    memory = fuzz(library, tmp_path, 10_000, *flags)
    print(f"{flags}: memory {[round(value, 1) for value in memory]} MB")
    # Large requests leave small steps (some 15 MB in all). A leak is a slope, and shows in the median of the steps:
    # 5 MB in all is half a kilobyte for each request. TensorFlow itself keeps 0.7 KB of each run that has a deadline
    # and fails, which is some 1 to 2 MB here.
    assert memory[-1] < memory[1] + 50
    assert np.median(np.diff(memory)) * 40 < 5
