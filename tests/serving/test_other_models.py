"""Models that are not ours: the server serves any SavedModel whose tensors are numbers.

The model is y = x / 2 + 2, which TF-Serving's own tests of its Python clients use, and so are the requests.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2

from tests.serving.conftest import running


@pytest.fixture(scope="module")
def half_plus_two(tmp_path_factory):
    module = tf.Module()
    module.a, module.b = tf.Variable(0.5), tf.Variable(2.0)
    module.predict = tf.function(
        lambda x: {"y": module.a * x + module.b},
        input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")],
    )
    base = tmp_path_factory.mktemp("half_plus_two")
    tf.saved_model.save(module, str(base / "00000123"), signatures={"serving_default": module.predict})
    return base


@pytest.mark.parametrize("batching", [False, True])
def test_predict(half_plus_two, batching):
    with running(half_plus_two, model_name="default", enable_batching=batching) as connection:
        # A vector for an input of the shape [-1, 1]: shapes are the graph's affair.
        for shape in ([1], [1, 1]):
            request = connection.request("serving_default", name="default", x=np.full(shape, 2.0, "float32"))
            response = connection.prediction.Predict(request, timeout=30)
            assert list(response.outputs["y"].float_val) == [3.0]
            assert response.model_spec.version.value == 123
            assert response.model_spec.signature_name == "serving_default"
            assert [dim.size for dim in response.outputs["y"].tensor_shape.dim] == shape
        status, answer = connection.http("POST", "/v1/models/default:predict", {"instances": [2.0, 3.0, 4.0]})
        assert (status, answer) == (200, {"predictions": [3.0, 3.5, 4.0]})
        status, answer = connection.http("POST", "/v1/models/default:predict", {"inputs": {"x": [[2.0], [3.0]]}})
        assert (status, answer) == (200, {"outputs": [[3.0], [3.5]]})
        status, answer = connection.http("POST", "/v1/models/default/versions/123:predict", {"instances": [[2.0]]})
        assert (status, answer) == (200, {"predictions": [[3.0]]})


def test_status_and_metadata(half_plus_two):
    with running(half_plus_two, model_name="default") as connection:
        status, answer = connection.http("GET", "/v1/models/default/versions/123")
        assert status == 200
        assert answer == {
            "model_version_status": [
                {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
            ]
        }
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "default"
        response = connection.prediction.GetModelMetadata(request, timeout=30)
        assert response.model_spec.name == "default"
        assert response.model_spec.version.value == 123
        status, answer = connection.http("GET", "/v1/models/default/metadata")
        signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert signature["method_name"] == "tensorflow/serving/predict"
        assert signature["inputs"]["x"]["tensor_shape"]["dim"][1]["size"] == "1"
        assert connection.http("GET", "/", raw=True)[0] == 200
        assert connection.http("GET", "/page/models")[1][0]["version"] == 123


def test_names_with_spaces_over_rest(half_plus_two):
    """In a path they are sent as their codes, which is what browsers and the page do."""
    with running(half_plus_two, model_name="half, plus ü") as connection:
        path = "/v1/models/half%2C%20plus%20%C3%BC"
        assert connection.http("GET", path)[0] == 200
        assert connection.http("POST", f"{path}:predict", {"instances": [2.0]}) == (200, {"predictions": [3.0]})
        status, answer = connection.http("GET", "/v1/models/%2e%2e")
        assert (status, answer["error"]) == (404, "Could not find any versions of model ..")
