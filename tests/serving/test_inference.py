"""Classify, Regress and MultiInference, over gRPC and REST, for models of TensorFlow 1 and 2."""

import base64

import grpc
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, inference_pb2, input_pb2, model_pb2, regression_pb2

from serving import inference
from tests.serving.conftest import eventually, running
from tests.serving.half_plus_two import METHODS, export_tf1, export_tf2


@pytest.fixture(scope="module", params=["tf1", "tf2"])
def served(request, tmp_path_factory):
    base = tmp_path_factory.mktemp(request.param)
    (export_tf1 if request.param == "tf1" else export_tf2)(base / "00000123")
    with running(base, model_name="default") as connection:
        connection.kind = request.param
        yield connection


def filled(message, signature, *values, name="default"):
    message.model_spec.name, message.model_spec.signature_name = name, signature
    for value in values:
        message.input.example_list.examples.add().features.feature["x"].float_list.value.append(value)
    return message


def multi(*names, values=(2.0,)):
    request = inference_pb2.MultiInferenceRequest()
    for name in names:
        task = request.tasks.add(method_name=METHODS[name])
        task.model_spec.name, task.model_spec.signature_name = "default", name
    for value in values:
        request.input.example_list.examples.add().features.feature["x"].float_list.value.append(value)
    return request


def test_classify(served):
    request = filled(classification_pb2.ClassificationRequest(), "classify_x_to_y", 2.0, 4.0)
    response = served.prediction.Classify(request, timeout=20)
    assert [[entry.score for entry in row.classes] for row in response.result.classifications] == [[3.0], [4.0]]
    spec = response.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("default", "classify_x_to_y", 123)


def test_regress(served):
    request = filled(regression_pb2.RegressionRequest(), "regress_x_to_y", 2.0, 4.0)
    response = served.prediction.Regress(request, timeout=20)
    assert [entry.value for entry in response.result.regressions] == [3.0, 4.0]
    spec = response.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("default", "regress_x_to_y", 123)


def test_multi_inference(served):
    response = served.prediction.MultiInference(multi("regress_x_to_y", "classify_x_to_y"), timeout=20)
    first, second = response.results
    assert first.regression_result.regressions[0].value == 3.0
    assert second.classification_result.classifications[0].classes[0].score == 3.0
    assert [result.model_spec.signature_name for result in response.results] == ["regress_x_to_y", "classify_x_to_y"]
    assert {result.model_spec.version.value for result in response.results} == {123}


def test_shared_context(served):
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "default", "regress_x_to_y"
    given = request.input.example_list_with_context
    given.context.features.feature["x"].float_list.value.append(8.0)
    given.examples.add()
    given.examples.add().features.feature["x"].float_list.value.append(2.0)
    response = served.prediction.Regress(request, timeout=20)
    assert [entry.value for entry in response.result.regressions] == [6.0, 3.0]


def test_rest(served):
    ask = lambda method, **body: served.http("POST", f"/v1/models/default:{method}", body)  # noqa: E731
    examples = [{"x": 2.0}, {"x": [4.5]}]
    body = {"signature_name": "classify_x_to_y", "examples": examples}
    assert ask("classify", **body) == (200, {"results": [[["", 3.0]], [["", 4.25]]]})
    body["signature_name"] = "regress_x_to_y"
    assert ask("regress", **body) == (200, {"results": [3.0, 4.25]})
    assert ask("regress", **{**body, "context": {"x": 8.0}, "examples": [{}]}) == (200, {"results": [6.0]})
    if served.kind == "tf1":
        assert ask("classify", signature_name="with_labels", examples=[{"x": 2.0}]) == (
            200, {"results": [[["small2", 3.0], ["large2", -3.0]]]}
        )  # fmt: skip


def test_metadata_over_rest(served):
    """The signatures themselves, without the message's type."""
    status, answer = served.http("GET", "/v1/models/default/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "default", "signature_name": "", "version": "123"}
    assert set(answer["metadata"]) == {"signature_def"}
    assert set(answer["metadata"]["signature_def"]) == {"signature_def"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["regress_x_to_y"]
    assert signature["method_name"] == f"tensorflow/serving/{'regress' if served.kind == 'tf1' else 'predict'}"
    assert signature["inputs"]["inputs"]["dtype"] == "DT_STRING"
    assert signature["inputs"]["inputs"]["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}], "unknown_rank": False,
    }  # fmt: skip
    assert signature["outputs"]["outputs"]["dtype"] == "DT_FLOAT"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "'examples' is expected and was not found"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": {}}, "to be an list/array"),
        ({"examples": [1]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{"x": None}]}, "unexpected JSON type: Null"),
        ({"examples": [{"x": [[1.0]]}]}, "unexpected JSON type: Array"),
        ({"examples": [{"x": [1.0, "a"]}]}, "Unexpected element type in feature: x"),
        ({"examples": [{"x": {"b64": "?"}}]}, "cannot be decoded"),
        ({"examples": [{"x": 2**63}]}, "Only int64"),
        ({"examples": [{}]}, "x"),
        ({"examples": [{"x": 1}]}, "Data types don't match"),
    ],
)
def test_examples_that_are_refused(served, body, text):
    status, answer = served.http("POST", "/v1/models/default:regress", {"signature_name": "regress_x_to_y", **body})
    assert status == 400, answer
    assert text in answer["error"]


def test_texts_in_examples():
    from serving import json_examples, json_tensors

    packed = {"b64": base64.b64encode(b"\xff\0").decode()}
    body = json_tensors.json.dumps({"examples": [{"a": ["é", packed], "b": "z", "c": [], "d": True, "e": [1, 2]}]})
    given, counted = input_pb2.Input(), []
    json_tensors.parse_object(body.encode(), members=json_examples.members(given, counted.append))
    (example,) = given.example_list_with_context.examples
    assert sum(counted) > 5 * 200
    features = example.features.feature
    assert list(features["a"].bytes_list.value) == ["é".encode(), b"\xff\0"]
    assert list(features["b"].bytes_list.value) == [b"z"]
    assert list(features["d"].int64_list.value) == [1]
    assert list(features["e"].int64_list.value) == [1, 2]


def test_what_examples_take_is_bounded(served, monkeypatch):
    ask = lambda body, method="regress": served.http("POST", f"/v1/models/default:{method}", body)  # noqa: E731
    body = b'{"signature_name": "regress_x_to_y", "examples": [%b{"x": 2.0}]}'
    status, answer = ask(body % (b"{}," * 10_000))
    assert (status, "at most 10000 examples" in answer["error"]) == (400, True)
    status, answer = ask(body % (b'{"x": 1.0},' * 9_999))
    assert (status, len(answer["results"])) == (200, 10_000)
    budget = served.server.core.bytes_in_flight
    monkeypatch.setattr(budget, "limit", 2**20)
    status, answer = ask(body % (b"{}," * 9_999))
    assert (status, "over the limit of 1048576" in answer["error"]) == (429, True)
    # Each example gets a copy of the context.
    request = filled(regression_pb2.RegressionRequest(), "regress_x_to_y")
    shared = request.input.example_list_with_context
    shared.context.features.feature["y"].bytes_list.value.append(b"a" * 3000)
    for _ in range(400):
        shared.examples.add().features.feature["x"].float_list.value.append(1.0)
    with pytest.raises(grpc.RpcError) as error:
        served.prediction.Regress(request, timeout=20)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    eventually(lambda: budget.held == 0)


def test_examples_are_not_read_where_no_signature_takes_them(served, monkeypatch):
    from serving import json_examples

    monkeypatch.setattr(json_examples, "members", None)
    with served.server.core.manager.lease(model_pb2.ModelSpec(name="default")) as servable:
        monkeypatch.setattr(servable, "signatures", {"predict": servable.signatures["serving_default"]})
        for path, code in (("default:classify", 400), ("x:classify", 404)):
            assert served.http("POST", f"/v1/models/{path}", {"examples": [{}]})[0] == code


def test_errors(served):
    def refused(call, request, code, text):
        with pytest.raises(grpc.RpcError) as error:
            call(request, timeout=20)
        assert error.value.code() == code, error.value.details()
        assert text in error.value.details()

    invalid, stubs = grpc.StatusCode.INVALID_ARGUMENT, served.prediction
    classify = lambda *args: filled(classification_pb2.ClassificationRequest(), *args)  # noqa: E731
    refused(stubs.Classify, classify("regress_x_to_y", 2.0), invalid, "among ['classes', 'scores']. Found: outputs")
    refused(stubs.Classify, classify("serving_default", 2.0), invalid, "No classification inputs found. It has: x")
    refused(stubs.Classify, classify("nothing", 2.0), invalid, "No signature was found with the name: nothing")
    refused(stubs.Classify, classify("classify_x_to_y"), invalid, "Input is empty")
    refused(stubs.MultiInference, multi(), invalid, "at least one task")
    refused(stubs.MultiInference, multi("regress_x_to_y", "regress_x_to_y"), invalid, "Duplicate evaluation")
    other = multi("regress_x_to_y", "classify_x_to_y")
    other.tasks[1].model_spec.name = "x"
    refused(stubs.MultiInference, other, invalid, "same model name")
    other.tasks[1].method_name = "x"
    refused(stubs.MultiInference, other, grpc.StatusCode.UNIMPLEMENTED, "Unsupported signature method_name: x")


@pytest.mark.parametrize("export", [export_tf1, export_tf2])
def test_names_of_methods_are_checked_if_that_is_asked_for(tmp_path, export):
    """Then exports of TensorFlow 2 answer Predict alone: all of their signatures have its name."""
    export(tmp_path / "1")
    with running(tmp_path, model_name="default", enable_signature_method_name_check=True) as connection:
        request = filled(classification_pb2.ClassificationRequest(), "classify_x_to_y", 2.0)
        body = {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}]}
        status, answer = connection.http("POST", "/v1/models/default:classify", body)
        if export is export_tf1:
            response = connection.prediction.Classify(request, timeout=20)
            assert response.result.classifications[0].classes[0].score == 3.0
            assert (status, answer) == (200, {"results": [[["", 3.0]]]})
            request.model_spec.signature_name, was = "regress_x_to_y", "regress"
        else:
            assert (status, answer) == (400, {"error": "The model has no classification signature"})
            was = "predict"
        with pytest.raises(grpc.RpcError, match=f"to be tensorflow/serving/classify. Was: tensorflow/serving/{was}"):
            connection.prediction.Classify(request, timeout=20)


def test_signatures_that_cannot_answer():
    """Judged by their inputs and outputs, before anything is computed."""
    string, number = types_pb2.DT_STRING, types_pb2.DT_FLOAT
    for inputs, outputs, classify, regress in (
        ({"inputs": string}, ["scores"], None, "outputs among"),
        ({"inputs": string}, ["classes", "scores"], None, "outputs among"),
        ({"inputs": string}, ["scores", "extra"], None, "outputs among"),
        ({"inputs": string}, ["classes", "scores", "extra"], "outputs among", "outputs among"),
        ({"inputs": string}, ["outputs"], "outputs among", None),
        ({"inputs": string}, ["outputs", "extra"], "outputs among", "outputs among"),
        ({"inputs": string}, [], "outputs among", "outputs among"),
        ({"inputs": number}, ["scores"], "DT_STRING, for examples. Got: DT_FLOAT", "Got: DT_FLOAT"),
        ({"x": string}, ["scores"], "No classification inputs", "No regression inputs"),
        ({"inputs": string, "x": number}, ["scores"], "one input", "one input"),
        ({}, ["scores"], "one input", "one input"),
    ):
        signature = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
        for name, dtype in inputs.items():
            signature.inputs[name].dtype = dtype
        for name in outputs:
            signature.outputs[name].dtype = number
        for method, text in (("classify", classify), ("regress", regress)):
            fault = inference._fault(signature, method, check_names=False)
            assert fault is None if text is None else text in fault, (inputs, outputs, method, fault)


def test_batches(tmp_path):
    export_tf1(tmp_path / "1")
    with running(tmp_path, model_name="default", enable_batching=True) as connection:
        request = filled(regression_pb2.RegressionRequest(), "regress_x_to_y", *range(5))
        futures = [connection.prediction.Regress.future(request, timeout=20) for _ in range(6)]
        for future in futures:
            assert [entry.value for entry in future.result().result.regressions] == [2.0, 2.5, 3.0, 3.5, 4.0]
