"""Every row of the table of errors, over gRPC and over REST.

Two rows have another form over REST: a model without a name is a path that is not known, and there is no output filter.
"""

import contextlib
import http.client

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from serving.errors import ServingError
from serving.tensors import check_types, to_proto
from tests.serving.conftest import N_V, put, running

X = np.zeros([2, N_V], "float32")
GIBBS = {"visible": X, "seed": np.arange(2), "steps": np.ones(2, "int32")}


def refused(call, code, text):
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() == getattr(grpc.StatusCode, code), error.value.details()
    assert text in error.value.details()


def raw(connection, change):
    """A good request after something was done to it."""
    request = connection.request("gibbs", **GIBBS)
    change(request)
    return lambda: connection.prediction.Predict(request, timeout=30)


def test_no_model_spec(connection):
    refused(
        lambda: connection.prediction.Predict(predict_pb2.PredictRequest()), "INVALID_ARGUMENT", "Missing ModelSpec"
    )
    refused(
        lambda: connection.predict("gibbs", name="", **GIBBS), "INVALID_ARGUMENT", "ModelSpec has no name specified."
    )


def test_unknown_model_version_and_label(connection):
    for arguments, code, text in (
        ({"name": "x"}, "NOT_FOUND", "Servable not found for request: Latest(x)"),
        ({"version": 7}, "NOT_FOUND", "Servable not found for request: Specific(rbm, 7)"),
        ({"name": "x", "version": 7}, "NOT_FOUND", "Servable not found for request: Specific(x, 7)"),
        ({"label": "L"}, "INVALID_ARGUMENT", "Unrecognized servable version label: L"),
    ):
        refused(lambda a=arguments: connection.predict("gibbs", **GIBBS, **a), code, text)


def test_unknown_signature(connection):
    refused(lambda: connection.predict("x", **GIBBS), "FAILED_PRECONDITION", 'Serving signature key "x" not found.')


def test_missing_and_extra_inputs(connection):
    less = {key: value for key, value in GIBBS.items() if key != "seed"}
    refused(lambda: connection.predict("gibbs", **less), "INVALID_ARGUMENT", "Missing but required: {seed}")
    refused(lambda: connection.predict("gibbs", extra=X, **GIBBS), "INVALID_ARGUMENT", "Sent extra: {extra}")
    refused(lambda: connection.predict("gibbs", extra=X, **less), "INVALID_ARGUMENT", "Sent extra: {extra}")
    refused(lambda: connection.predict("sample"), "INVALID_ARGUMENT", "Missing but required: {seed}")


@pytest.mark.parametrize("dtype", ["int32", "float64", "uint8", "bool"])
def test_wrong_types(connection, dtype):
    bad = {**GIBBS, "seed": np.arange(2).astype(dtype)}
    refused(lambda: connection.predict("gibbs", **bad), "INVALID_ARGUMENT", "seed")


def test_unparsable_tensors(connection):
    def content(request):
        request.inputs["visible"].CopyFrom(tensor_pb2.TensorProto(dtype=1, tensor_shape=X_SHAPE, tensor_content=b"123"))

    def strings(request):
        request.inputs["visible"].CopyFrom(tf.make_tensor_proto(["a", "b"]))

    def huge(request):
        request.inputs["visible"].tensor_shape.dim[0].size = 2**40

    def negative(request):
        request.inputs["visible"].tensor_shape.dim[0].size = -1

    def no_type(request):
        request.inputs["visible"].dtype = 0

    X_SHAPE = to_proto(X).tensor_shape
    for change in (content, strings, huge, negative, no_type):
        refused(raw(connection, change), "INVALID_ARGUMENT", "tensor parsing error: visible")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"visible": X[:, :3]}, f"visible must have the shape [rows, {N_V}]"),
        ({"visible": X[0]}, f"visible must have the shape [rows, {N_V}]"),
        ({"visible": X[:, :, None]}, f"visible must have the shape [rows, {N_V}]"),
        ({"visible": np.float32(1)}, f"visible must have the shape [rows, {N_V}]"),
        ({"seed": np.arange(3)}, "seed must have one entry for each row"),
        ({"seed": np.array(1)}, "seed must have the shape [rows]"),
        ({"seed": np.zeros([2, 1], "int64")}, "seed must have the shape [rows]"),
        ({"steps": np.zeros(1, "int32")}, "steps must have one entry for each row"),
        ({"steps": np.array([1, -1], "int32")}, "steps must be from 0 to 1000000"),
        ({"steps": np.array([1, 1_000_001], "int32")}, "steps must be from 0 to 1000000"),
        ({"visible": np.full_like(X, np.nan)}, "without NaN"),
        ({"visible": X - 0.1}, "visible must be in [0, 1]"),
        ({"visible": np.zeros([10_001, N_V], "float32")}, "at most 10000 rows"),
    ],
)
def test_checks_of_the_graph(connection, changes, text):
    refused(lambda: connection.predict("gibbs", **{**GIBBS, **changes}), "INVALID_ARGUMENT", text)
    body = {"signature_name": "gibbs", "inputs": {key: v.tolist() for key, v in {**GIBBS, **changes}.items()}}
    if "NaN" not in text:
        status, answer = connection.http("POST", PREDICT, body)
        assert status == 400
        assert text in answer["error"]


def test_masks_are_checked(connection):
    bad = np.full_like(X, 0.5)
    refused(lambda: connection.predict("clamp", mask=bad, **GIBBS), "INVALID_ARGUMENT", "mask must be 0 or 1")
    refused(lambda: connection.predict("clamp", mask=X[:1], **GIBBS), "INVALID_ARGUMENT", "as many rows as visible")


def test_output_filter(connection):
    def unknown(request):
        request.output_filter.append("x")

    def twice(request):
        request.output_filter.extend(["visible", "visible"])

    refused(raw(connection, unknown), "INVALID_ARGUMENT", "output tensor alias not found in signature: x")
    refused(raw(connection, twice), "INVALID_ARGUMENT", "duplicate output tensor alias: visible")
    request = connection.request("gibbs", **GIBBS)
    request.output_filter.append("visible")
    assert set(connection.prediction.Predict(request).outputs) == {"visible"}


@pytest.mark.parametrize(("array", "kind"), [(np.array([b"a"], object), "string"), (np.zeros(1, "float16"), "float16")])
def test_outputs_without_a_message(array, kind):
    with pytest.raises(ServingError, match=f"output names is of the type {kind},") as error:
        check_types({"numbers": np.zeros(1), "names": array})
    assert error.value.code is grpc.StatusCode.UNIMPLEMENTED


def test_deadline_stops_the_computation(connection):
    long = {**GIBBS, "steps": np.full(2, 500_000, "int32")}
    refused(lambda: connection.predict("gibbs", timeout=0.3, **long), "DEADLINE_EXCEEDED", "")
    # Were it still running, these would have to wait for it: both places to run are free again.
    for _ in range(4):
        connection.predict("gibbs", timeout=20, **GIBBS)


def test_full_queues(library, tmp_path):
    """RESOURCE_EXHAUSTED where nothing may wait; UNAVAILABLE from a full batching queue."""
    long = {**GIBBS, "steps": np.full(2, 500_000, "int32")}
    put(library[0], tmp_path / "rbm", 1)
    parameters = tmp_path / "batching.config"
    parameters.write_text(
        "max_batch_size { value: 2 } max_enqueued_batches { value: 1 } num_batch_threads { value: 1 }"
    )
    for options, code in (
        ({"max_running": 1, "max_waiting": 1}, "RESOURCE_EXHAUSTED"),
        ({"enable_batching": True, "batching_parameters_file": str(parameters)}, "UNAVAILABLE"),
    ):
        with running(tmp_path / "rbm", **options, rest_api_timeout_in_ms=3000) as connection:
            request = connection.request("gibbs", **long)
            accepted = []
            while len(accepted) < 2:  # one that runs, then one that waits for it
                future = connection.prediction.Predict.future(request, timeout=8)
                with contextlib.suppress(grpc.FutureTimeoutError):
                    future.exception(timeout=1)
                if not future.done():
                    accepted.append(future)
            with pytest.raises(grpc.RpcError) as refused:
                connection.predict("gibbs", timeout=0.5, **long)  # short work would pass the long one by
            assert refused.value.code().name == code
            body = {"signature_name": "gibbs", "inputs": {key: value.tolist() for key, value in long.items()}}
            status, answer = connection.http("POST", PREDICT, body)
            assert status == (429 if code == "RESOURCE_EXHAUSTED" else 503)
            assert answer["error"]
            assert {future.exception().code().name for future in accepted} == {"DEADLINE_EXCEEDED"}


def test_classify_regress_and_multi_inference(connection):
    for request, call, kind in (
        (classification_pb2.ClassificationRequest(), connection.prediction.Classify, "classification"),
        (regression_pb2.RegressionRequest(), connection.prediction.Regress, "regression"),
    ):
        refused(lambda c=call, r=request: c(r), "INVALID_ARGUMENT", "Missing ModelSpec")
        request.model_spec.name = "rbm"
        refused(lambda c=call, r=request: c(r), "INVALID_ARGUMENT", f"No {kind} inputs found. It has: seed")
        request.model_spec.name = "x"
        refused(lambda c=call, r=request: c(r), "NOT_FOUND", "Latest(x)")
    multi = inference_pb2.MultiInferenceRequest()
    refused(lambda: connection.prediction.MultiInference(multi), "INVALID_ARGUMENT", "")
    task = multi.tasks.add(method_name="tensorflow/serving/classify")
    task.model_spec.name = "rbm"
    refused(lambda: connection.prediction.MultiInference(multi), "INVALID_ARGUMENT", "No classification inputs found")
    for method, kind in (("classify", "classification"), ("regress", "regression")):
        status, answer = connection.http("POST", f"/v1/models/rbm:{method}", {"examples": [{"x": 1}]})
        assert status == 400
        assert answer["error"] == f"The model has no {kind} signature"


def test_metadata_and_status_errors(connection):
    metadata = get_model_metadata_pb2.GetModelMetadataRequest()
    call = lambda: connection.prediction.GetModelMetadata(metadata)  # noqa: E731
    refused(call, "INVALID_ARGUMENT", "Missing ModelSpec")
    metadata.model_spec.name = "rbm"
    refused(call, "INVALID_ARGUMENT", "at least one metadata_field")
    metadata.metadata_field.append("variables")
    refused(call, "INVALID_ARGUMENT", "Metadata field variables is not supported")
    metadata.metadata_field[:] = ["signature_def"]
    metadata.model_spec.name = "x"
    refused(call, "NOT_FOUND", "Latest(x)")
    status = get_model_status_pb2.GetModelStatusRequest()
    call = lambda: connection.models.GetModelStatus(status)  # noqa: E731
    refused(call, "INVALID_ARGUMENT", "Missing ModelSpec")
    status.model_spec.name = "x"
    refused(call, "NOT_FOUND", "Could not find any versions of model x")
    status.model_spec.name = "rbm"
    status.model_spec.version.value = 7
    refused(call, "NOT_FOUND", "Could not find version 7 of model rbm")


PREDICT = "/v1/models/rbm:predict"
GOOD = {"inputs": {key: value.tolist() for key, value in GIBBS.items()}, "signature_name": "gibbs"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/v1/models/:predict", GOOD, 400, "Malformed request: POST /v1/models/:predict"),
        ("POST", "/v1/models/x:predict", GOOD, 404, "Servable not found for request: Latest(x)"),
        ("POST", "/v1/models/rbm/versions/7:predict", GOOD, 404, "Servable not found for request: Specific(rbm, 7)"),
        ("POST", "/v1/models/rbm/labels/L:predict", GOOD, 400, "Unrecognized servable version label: L"),
        ("POST", "/v1/models/rbm/versions/99999999999999999999:predict", GOOD, 400, "Failed to convert version"),
        ("GET", f"/v1/models/rbm/versions/{'9' * 5000}", None, 400, "Failed to convert version"),
        (
            "POST",
            "/v1/models/rbm:predict",
            {**GOOD, "signature_name": "x"},
            400,
            'Serving signature name: "x" not found',
        ),
        ("POST", PREDICT, {**GOOD, "signature_name": 3}, 400, "'signature_name' key must be a string"),
        ("POST", PREDICT, {**GOOD, "signature_name": "\ud800"}, 400, r"is invalid. Received: '\ud800'"),
        ("POST", PREDICT, b'{"signature_name": "\xed\xa0\x80"}', 400, "surrogate pair in string is invalid"),
        ("POST", PREDICT, {"instances": [1], "inputs": [1]}, 400, "only one of"),
        ("POST", PREDICT, {"signature_name": "sample"}, 400, "Missing 'inputs' or 'instances' key"),
        ("POST", PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
        ("POST", PREDICT, {"instances": 3}, 400, "to be an list/array"),
        ("POST", PREDICT, {"instances": [{"x": 1}]}, 400, "does not have named input: x"),
        ("POST", PREDICT, {"instances": [{}]}, 400, "keys must be equal to: seed"),
        (
            "POST",
            "/v1/models/rbm:predict",
            {"instances": [{"seed": 1}, 2]},
            400,
            "Expecting object but got list at item 1",
        ),
        ("POST", PREDICT, {"instances": [[1, 2], [3]]}, 400, "unexpected size"),
        ("POST", PREDICT, {"instances": ["a"]}, 400, "not of expected type: int64"),
        ("POST", PREDICT, {"instances": [1.5]}, 400, "not of expected type: int64"),
        (
            "POST",
            "/v1/models/rbm:predict",
            {"signature_name": "gibbs", "instances": [1]},
            400,
            "expecting list of objects",
        ),
        ("POST", PREDICT, {"signature_name": "gibbs", "inputs": [1]}, 400, "expecting an object"),
        ("POST", PREDICT, {"signature_name": "gibbs", "inputs": {}}, 400, "Missing named input: seed"),
        ("POST", PREDICT, b"{not json", 400, "JSON Parse error"),
        ("POST", PREDICT, b"", 400, "The document is empty"),
        ("POST", PREDICT, b"[1]", 400, "Is not object"),
        ("POST", PREDICT, b"[" * 100_000, 400, "JSON Parse error"),
        ("POST", PREDICT, b'{"instances": ' + b"[" * 900 + b"]" * 900 + b"}", 400, ""),
        ("GET", "/v1/models/rbm:predict", None, 400, "Malformed request: GET /v1/models/rbm:predict"),
        ("POST", "/v1/models/rbm", GOOD, 400, "Malformed request: POST /v1/models/rbm"),
        ("GET", "/v1/models/x", None, 404, "Could not find any versions of model x"),
        ("GET", "/v1/models/rbm/versions/7", None, 404, "Could not find version 7 of model rbm"),
        ("GET", "/v1/models/x/metadata", None, 404, "Latest(x)"),
        ("GET", "/nothing", None, 400, "Malformed request: GET /nothing"),
    ],
)
def test_rest(connection, method, path, body, status, text):
    got, answer = connection.http(method, path, body)
    assert got == status, answer
    assert text in answer["error"]


@pytest.mark.parametrize("length", ["9" * 5000, "9999999999", "-1", "x"])
def test_rest_length(connection, length):
    request = http.client.HTTPConnection("127.0.0.1", connection.rest_port, timeout=30)
    request.putrequest("POST", PREDICT)
    request.putheader("Content-Length", length)
    request.endheaders()
    response = request.getresponse()
    assert response.status == 400
    assert b"Content-Length" in response.read()
    request.close()


def test_rest_deadline(base):
    with running(base, rest_api_timeout_in_ms=300) as connection:
        body = {"signature_name": "gibbs", "inputs": {**GOOD["inputs"], "steps": [500_000, 500_000]}}
        status, answer = connection.http("POST", PREDICT, body)
        assert status == 504
        assert answer["error"]
