"""One seed, one answer: bit for bit the same, whichever way and with whomever a row travels."""

import functools
import json
import os
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from serving.c_api import SavedModelSession
from tests.serving.conftest import N_V, put, running
from tests.support.served import requests, signatures, small_rbm

IN_A_PROCESS_OF_ITS_OWN = """
import ctypes, sys
import numpy as np
from serving import c_api, c_library
getattr(c_library.library(), "_ZN10tensorflow21DisableXlaCompilationEv")()  # as TF-Serving does at its start
session = c_api.SavedModelSession(sys.argv[1])
inputs = np.load(sys.argv[2])
results = {}
for key in inputs.files:
    name, _, argument = key.partition("/")
    signature = session.meta_graph.signature_def[name]
    feeds = {signature.inputs[k.partition("/")[2]].name: inputs[k] for k in inputs.files if k.startswith(name + "/")}
    outputs = sorted(signature.outputs)
    for output, array in zip(outputs, session.run(feeds, [signature.outputs[o].name for o in outputs])):
        results[name + "/" + output] = array
np.savez(sys.argv[3], **results)
# The control: a graph that must be compiled.
control = c_api.SavedModelSession(sys.argv[4])
signature = control.meta_graph.signature_def["sample"]
try:
    control.run({signature.inputs["seed"].name: np.arange(3)}, [signature.outputs["y"].name])
except c_library.SessionError as error:
    print("control:", error)
"""


@functools.lru_cache(maxsize=1)
def loaded_session(path):
    return SavedModelSession(path)


def by_session(path, inputs):
    session = loaded_session(path)
    answers = {}
    for name, arrays in inputs.items():
        signature = session.meta_graph.signature_def[name]
        outputs = sorted(signature.outputs)
        feeds = {signature.inputs[key].name: value for key, value in arrays.items()}
        values = session.run(feeds, [signature.outputs[output].name for output in outputs])
        answers[name] = dict(zip(outputs, values, strict=True))
    return answers


def assert_same(a, b, rows=slice(None)):
    for name, arrays in a.items():
        for key, value in arrays.items():
            np.testing.assert_array_equal(value[rows], b[name][key], err_msg=f"{name} {key} {rows}")


def part(inputs, rows):
    return {name: {key: value[rows] for key, value in arrays.items()} for name, arrays in inputs.items()}


MODELS = {
    "small": lambda: small_rbm("spin", "bernoulli", 13, 9),
    "gaussian": lambda: small_rbm("gaussian", "spin", 11, 6),
    "heavy": lambda: small_rbm("bernoulli", "spin", 37, 61, scale=40.0),  # chains in double precision
    "middle": lambda: _middle(150, 83),
}


def _middle(n_v, n_h):
    rbm = tf_wcd.RBMLayer(n_h, kernel_initializer=keras.initializers.RandomNormal(stddev=0.2, seed=3), seed=0)
    rbm.build((None, n_v))
    return rbm


@pytest.mark.parametrize(
    "kind", [name if name == "small" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_rows_alone_and_in_batches_of_any_size(kind, tmp_path):
    rbm = MODELS[kind]()
    rbm.export(tmp_path / "m", gibbs_steps=15)
    inputs = requests(64, rbm.num_visible, rbm.visible_unit.name)
    loaded = signatures(tmp_path / "m")
    whole = {name: loaded[name](**arrays) for name, arrays in inputs.items()}
    assert_same(whole, by_session(tmp_path / "m", inputs))
    for rows in (slice(0, 1), slice(37, 38), slice(63, 64), slice(5, 8), slice(10, 43), slice(1, 64)):
        assert_same(whole, by_session(tmp_path / "m", part(inputs, rows)), rows)
    # Any order, and among many more rows.
    order = np.random.default_rng(0).permutation(64)
    shuffled = by_session(tmp_path / "m", part(inputs, order))
    assert_same({n: {k: v[order] for k, v in a.items()} for n, a in whole.items()}, shuffled)
    many = {
        name: {key: np.concatenate([value] * 5) for key, value in arrays.items()} for name, arrays in inputs.items()
    }
    assert_same(
        {n: {k: np.concatenate([v] * 5) for k, v in a.items()} for n, a in whole.items()},
        by_session(tmp_path / "m", many),
    )


@pytest.mark.slow
def test_the_loader_of_tf_serving_with_xla_disabled(tmp_path):
    """Another process, TF-Serving's loader and its settings; and a control that XLA is indeed disabled there."""
    rbm = _middle(50, 21)
    rbm.export(tmp_path / "m", gibbs_steps=15)
    inputs = requests(64, 50, "bernoulli")
    loaded = signatures(tmp_path / "m")
    whole = {name: loaded[name](**arrays) for name, arrays in inputs.items()}
    flat = {f"{name}/{key}": value for name, arrays in inputs.items() for key, value in arrays.items()}
    np.savez(tmp_path / "in.npz", **flat)

    module = tf.Module()
    module.f = tf.function(
        lambda seed: {"y": seed + 1}, input_signature=[tf.TensorSpec([None], tf.int64, name="seed")], jit_compile=True
    )
    tf.saved_model.save(module, str(tmp_path / "jit"), signatures={"sample": module.f})
    arguments = [str(tmp_path / name) for name in ("m", "in.npz", "out.npz", "jit")]
    result = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, *arguments],
        capture_output=True,
        text=True,
        # One thread: another partition of the work than here.
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    there = np.load(tmp_path / "out.npz")
    for name, arrays in whole.items():
        for key, value in arrays.items():
            np.testing.assert_array_equal(value, there[f"{name}/{key}"])
    assert "XLA compilation disabled" in result.stdout


@pytest.mark.parametrize("batching", [False, True])
def test_through_the_server(library, tmp_path, batching):
    """Alone, in a batch of 64, batched with other clients' rows, over REST, and after a reload."""
    put(library[0], tmp_path / "rbm", 1)
    inputs = requests(64, N_V, "bernoulli")
    loaded = signatures(library[0])
    whole = {name: loaded[name](**arrays) for name, arrays in inputs.items()}
    parameters = tmp_path / "batching.config"
    parameters.write_text(
        "max_batch_size { value: 96 } batch_timeout_micros { value: 20000 } "
        "allowed_batch_sizes: 7 allowed_batch_sizes: 33 allowed_batch_sizes: 96"
    )
    options = {"enable_batching": True, "batching_parameters_file": str(parameters)} if batching else {}
    for start in range(2):  # the second time after a restart
        with running(tmp_path / "rbm", **options) as connection:
            assert_same(whole, {name: connection.predict(name, **arrays) for name, arrays in inputs.items()})
            answers: dict = {}

            def ask(i, connection=connection, answers=answers):
                rows = slice(i, i + 1 + i % 2)
                answers[i] = rows, {name: connection.predict(name, **a) for name, a in part(inputs, rows).items()}

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(0, 62, 2 + 3 * start)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(answers) == len(threads)
            for rows, answer in answers.values():
                assert_same(whole, answer, rows)
            for name, arrays in part(inputs, slice(2, 5)).items():
                body = {"signature_name": name, "inputs": {key: value.tolist() for key, value in arrays.items()}}
                status, answer = connection.http("POST", "/v1/models/rbm:predict", body)
                assert status == 200, answer
                outputs = answer["outputs"]
                outputs = outputs if isinstance(outputs, dict) else {next(iter(whole[name])): outputs}
                for key, value in whole[name].items():
                    np.testing.assert_array_equal(value[2:5], np.array(outputs[key], "float32"))


def test_rest_by_rows(connection):
    by_rows = {
        "signature_name": "gibbs",
        "instances": [{"visible": [0.0] * N_V, "seed": i, "steps": 3} for i in range(4)],
    }
    status, answer = connection.http("POST", "/v1/models/rbm/versions/1:predict", by_rows)
    assert status == 200
    rows = connection.predict(
        "gibbs", version=1, visible=np.zeros([4, N_V], "float32"), seed=np.arange(4), steps=np.full(4, 3, "int32")
    )
    np.testing.assert_array_equal([row["visible"] for row in answer["predictions"]], rows["visible"])
    np.testing.assert_array_equal(
        np.array([row["probability"] for row in answer["predictions"]], "float32"), rows["probability"]
    )
    # One input and one output need no names.
    _, answer = connection.http(
        "POST", "/v1/models/rbm/labels/stable:predict", {"signature_name": "free_energy", "instances": [[0.0] * N_V]}
    )
    value = connection.predict("free_energy", label="stable", visible=np.zeros([1, N_V], "float32"))["free_energy"]
    assert np.array(answer["predictions"], "float32").tolist() == value.tolist()
    assert json.dumps(answer["predictions"]).count(".") == 1


@pytest.mark.slow
def test_a_large_model_in_batches(tmp_path):
    rbm = _middle(784, 500)
    rbm.export(tmp_path / "m", gibbs_steps=30)
    inputs = requests(64, 784, "bernoulli", max_steps=40)
    whole = by_session(tmp_path / "m", inputs)
    loaded = signatures(tmp_path / "m")
    assert_same(whole, {name: loaded[name](**arrays) for name, arrays in inputs.items()})
    for start in range(64):
        rows = slice(start, start + 1)
        assert_same(whole, by_session(tmp_path / "m", part(inputs, rows)), rows)
    for size in (2, 3, 5, 8, 13, 21, 34, 55):
        rows = slice(64 - size, 64)
        assert_same(whole, by_session(tmp_path / "m", part(inputs, rows)), rows)
