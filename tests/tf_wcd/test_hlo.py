"""The compiled training loop as a GPU would get it: nothing goes to the host inside a call, and no shape changes.

There is no GPU here. What XLA is given (before it is optimised for a device) is the same for every one.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.training import sharing

X = np.random.default_rng(0).integers(0, 2, (40, 6)).astype("float32")
HOST = r"\b(infeed|outfeed|send|recv|send-done|recv-done|custom-call|after-all)\("
DYNAMIC = r"\[[^\]]*<=|set-dimension-size\(|get-dimension-size\("


class ReadError(Exception):
    """Ends a training when its program has been read: nothing has to be compiled."""


def program_of(train, monkeypatch):
    """The compiled updates of a training, as XLA's text."""
    monkeypatch.setattr(sharing, "kept", type(sharing.kept)())
    texts = []

    def call(program, function, variables, *arguments):
        program._of_thread.function = function
        texts.append(program._compiled.experimental_get_compiler_ir(list(variables), *arguments)(stage="hlo"))
        raise ReadError

    monkeypatch.setattr(sharing.Program, "__call__", call)
    with pytest.raises(ReadError):
        train()
    return texts[0]


def train(data=X, batch_size=10, layer=tf_wcd.RBMLayer, optimizer=None, **options):
    rbm = layer(4, seed=0, **options)
    rbm.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), jit_compile=True)
    arguments = {} if batch_size is None else {"batch_size": batch_size}
    rbm.fit(data, epochs=1, verbose=0, **arguments)


CASES = {
    "cd": {"negative_phase": "cd", "gibbs_steps": 3},
    "wcd, weighted rows of whole batches": {"negative_phase": "wcd", "batch_size": 40},
    "wcd, half precision": {"negative_phase": "wcd", "dtype": "mixed_bfloat16"},
    "bcd, centred": {"negative_phase": "bcd", "centered": True},
    "jpcd": {"negative_phase": tf_wcd.negative_phases.JPCD(observers=20, resample_below=0.9)},
    "pt": {"negative_phase": "pt"},
    "ptt": {"negative_phase": "ptt"},
    "exact, Adam": {"negative_phase": "exact", "optimizer": keras.optimizers.Adam(0.1)},
    "pcd, stream": {
        "negative_phase": "pcd",
        "data": tf.data.Dataset.from_tensor_slices(X).batch(10),
        "batch_size": None,
    },
    "wpcd, members": {"negative_phase": "wpcd", "layer": tf_wcd.RBMEnsemble, "count": 3},
}


@pytest.mark.xla
@pytest.mark.parametrize("name", CASES)
def test_a_call_stays_on_the_device_and_its_shapes_stay(name, monkeypatch):
    text = program_of(lambda: train(**CASES[name]), monkeypatch)
    assert "while(" in text
    assert re.findall(HOST, text) == []
    assert re.findall(DYNAMIC, text) == []


def test_what_would_be_found():
    """A shape that depends on values, and a transfer, in XLA's own words."""
    assert re.search(DYNAMIC, "%select = s64[<=4,1]{1,0} slice(s64[4,1]{1,0} %sort)")
    assert re.search(HOST, "%done = token[] outfeed(f32[] %sum, token[] %first)")

    @tf.function(jit_compile=True, autograph=False)
    def rows(x):
        return tf.reduce_sum(tf.boolean_mask(x, x[:, 0] > 0))

    text = rows.experimental_get_compiler_ir(tf.constant(X))(stage="hlo")
    assert re.search(DYNAMIC, text)
