"""What requests may take in memory is seen before they are parsed."""

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from serving.message_sizes import FIELDS, WEIGHT, predict_bytes
from serving.tensors import to_proto

MANY = FIELDS + 1


def request(**arrays):
    message = predict_pb2.PredictRequest()
    message.model_spec.name = "rbm"
    message.model_spec.version.value = 3
    for name, array in arrays.items():
        message.inputs[name].CopyFrom(to_proto(array))
    return message


def test_arrays_take_what_they_take():
    content = request(visible=np.eye(50, dtype="float32"), seed=np.arange(50)).SerializeToString()
    assert predict_bytes(content) == len(content) + 7 * 50  # of the seeds, a byte each
    message = request()
    message.inputs["x"].float_val.extend(range(5000))
    assert predict_bytes(message.SerializeToString()) == message.ByteSize()
    message.inputs["x"].int64_val.extend([1] * 5000)
    assert predict_bytes(message.SerializeToString()) == message.ByteSize() + 7 * 5000
    assert predict_bytes(b"") == 0


def entries(message):
    for i in range(MANY):
        message.inputs[str(i)].SetInParent()


def shape(message):
    for _ in range(MANY):
        message.inputs["x"].tensor_shape.dim.add()


@pytest.mark.parametrize(
    "fill",
    [
        entries,
        shape,
        lambda message: message.inputs["x"].string_val.extend([b""] * MANY),
        lambda message: message.output_filter.extend([""] * MANY),
        lambda message: message.inputs["x"].variant_val.add(),
        lambda message: message.inputs["x"].resource_handle_val.add(),
    ],
)
def test_small_parts_take_more(fill):
    message = request(visible=np.zeros([3, 4], "float32"))
    fill(message)
    assert predict_bytes(message.SerializeToString()) == WEIGHT * message.ByteSize()


def test_what_cannot_be_read_counts_as_the_most():
    content = request(visible=np.eye(5, dtype="float32")).SerializeToString()
    for broken in (content[:-1], b"\xff", b"\xff" * 20, b"\x0b", b"\x12\x7f"):
        assert predict_bytes(broken) == WEIGHT * len(broken)
    rng = np.random.default_rng(3)
    for _ in range(300):  # nothing makes it fail
        changed = bytearray(content)
        for place in rng.integers(0, len(content), 4):
            changed[place] = rng.integers(256)
        assert 0 < predict_bytes(bytes(changed)) <= WEIGHT * len(content)
