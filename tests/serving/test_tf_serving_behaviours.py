"""What TF-Serving's own tests of its server ask for, asked of ours.

Of the 30 behaviours there, 26 are tested in this repository. The rest is out of scope: TFLite models (two), the
profiler, and operations of TensorFlow Text. Where the others are: status, metadata, predictions and REST in
`test_other_models.py`; Classify, Regress and MultiInference for exports of TensorFlow 1 and 2 in `test_inference.py`;
the polled file of models in `test_reload.py`; a file that cannot be parsed, and metrics, in `test_process.py`.
"""

import subprocess
import sys

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.serving.conftest import running
from tests.serving.half_plus_two import export_tf1
from tests.support.processes import ENVIRONMENT

VECTOR = [tf.TensorSpec(None, tf.float32)]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Folders of x / 2 + 2 and of x / 2 + 3."""
    folder = tmp_path_factory.mktemp("models")
    export_tf1(folder / "half_plus_two" / "00000123")
    export_tf1(folder / "half_plus_three" / "00000123", add=3.0)
    return folder


def predict(stub, name="default", shape=(1,), signature="", filtered=()):
    """y for x = 2, and the model's name, signature and version."""
    request = predict_pb2.PredictRequest(output_filter=filtered)
    request.model_spec.name, request.model_spec.signature_name = name, signature
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.full(shape, 2.0, "float32")))
    response = stub.Predict(request, timeout=20)
    spec = response.model_spec
    (value,) = response.outputs["y"].float_val
    return value, spec.name, spec.signature_name, spec.version.value


@pytest.mark.parametrize("filtered", [(), ("y",)])
def test_a_file_with_two_models(bases, tmp_path, filtered):
    file = tmp_path / "models.config"
    models = "".join(
        f'config: {{ name: "{name}", base_path: "{bases}/{name}", model_platform: "tensorflow" }} '
        for name in ("half_plus_two", "half_plus_three")
    )
    file.write_text(f"model_config_list: {{ {models} }}")
    with running(None, model_config_file=str(file)) as connection:
        for name, value in (("half_plus_two", 3.0), ("half_plus_three", 4.0)):
            answer = predict(connection.prediction, name, filtered=filtered)
            assert answer == (value, name, "serving_default", 123)


def test_channel_arguments_and_a_socket(bases, tmp_path):
    arguments = "grpc.max_connection_age_ms=2000,grpc.lb_policy_name=grpclb"
    socket = f"{tmp_path}/socket"
    with running(
        bases / "half_plus_two", model_name="default", grpc_channel_arguments=arguments, grpc_socket_path=socket
    ) as connection:
        assert predict(connection.prediction)[0] == 3.0
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            assert predict(prediction_service_pb2_grpc.PredictionServiceStub(channel))[0] == 3.0


def test_a_function_with_variables(tmp_path):
    root = tf.train.Checkpoint(v1=tf.Variable(3.0), v2=tf.Variable(2.0))
    root.f = tf.function(lambda x: {"y": root.v1 * root.v2 * x})
    tf.saved_model.save(root, str(tmp_path / "00000123"), root.f.get_concrete_function(*VECTOR))
    with running(tmp_path, model_name="default") as connection:
        assert predict(connection.prediction) == (12.0, "default", "serving_default", 123)


def test_several_signatures_that_do_not_use_their_input(tmp_path):
    root = tf.train.Checkpoint()
    root.f = tf.function(lambda x: {"y": tf.constant(1.0)}, input_signature=VECTOR)
    root.g = tf.function(lambda x: {"y": tf.constant(2.0)}, input_signature=VECTOR)
    tf.saved_model.save(root, str(tmp_path / "00000123"), {"serving_default": root.f, "custom_key": root.g})
    with running(tmp_path, model_name="default") as connection:
        assert predict(connection.prediction, signature="custom_key") == (2.0, "default", "custom_key", 123)
        assert predict(connection.prediction) == (1.0, "default", "serving_default", 123)


KERAS = """
import sys, tensorflow as tf
if {distributed}:
    (device,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
else:
    strategy = tf.distribute.get_strategy()
with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((1,), name="x"),
        tf.keras.layers.Dense(1, kernel_initializer="ones", name="y"),
    ])
    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    spec = [tf.TensorSpec([None, 1], tf.float32, name="x")]
    archive.add_endpoint("serve", lambda x: {{"y": model(x)}}, input_signature=spec)
    archive.write_out(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("distributed", [False, True])
def test_keras_models(tmp_path, distributed):
    """By one device and by a strategy of two."""
    script = KERAS.format(distributed=distributed)
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "00000123")], check=True, env=ENVIRONMENT, timeout=240)
    with running(tmp_path, model_name="default") as connection:
        assert predict(connection.prediction, shape=(1, 1)) == (2.0, "default", "serving_default", 123)
