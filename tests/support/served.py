"""Exports for the tests: small models without symmetry, loaded in the ways that matter."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.support.brute_force import make_rbm, random_parameters
from tf_wcd import units
from tf_wcd.export import export_machines


def small_rbm(visible_type="bernoulli", hidden_type="bernoulli", n_v=5, n_h=4, seed=0, scale=0.7, **kwargs):
    return make_rbm(random_parameters(n_v, n_h, seed, scale), visible_type, hidden_type, seed=seed, **kwargs)


def exported(rbm, path, **kwargs):
    """The signatures of an export as functions from arrays to arrays."""
    export_machines([rbm.machine()], path, **kwargs)
    return signatures(path)


def signatures(path):
    loaded = tf.saved_model.load(str(path))

    def function(name):
        signature = loaded.signatures[name]

        def call(**arrays):
            outputs = signature(**{key: tf.constant(value) for key, value in arrays.items()})
            return {key: value.numpy() for key, value in outputs.items()}

        return call

    return {name: function(name) for name in loaded.signatures}


def requests(rows, n_v, visible_type, seed=0, grey=True, max_steps=9, labels=0):
    """Inputs of every signature, each row of its own kind."""
    rng = np.random.default_rng(seed)
    low, high = units.get(visible_type).values or (-3.0, 3.0)
    u = rng.random((rows, n_v))
    visible = (low + (high - low) * (u if grey or visible_type == "gaussian" else u < 0.5)).astype("float32")
    inputs = {
        "visible": visible,
        "seed": rng.integers(-(2**63), 2**63, rows),
        "steps": rng.integers(0, max_steps + 1, rows).astype("int32"),
        "mask": (rng.random((rows, n_v)) < 0.4).astype("float32"),
    }
    names = {
        "sample": ["seed"],
        "gibbs": ["visible", "seed", "steps"],
        "clamp": ["visible", "mask", "seed", "steps"],
        "encode": ["visible"],
        "free_energy": ["visible"],
    }
    if labels:
        inputs["label"] = rng.integers(0, labels, rows)
        names |= {"conditional": ["label", "seed"], "classify": ["visible"]}
    return {name: {key: inputs[key] for key in keys} for name, keys in names.items()}
