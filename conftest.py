"""Settings for all tests, those in docstrings included."""

import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import matplotlib

matplotlib.use("Agg")

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd


@pytest.fixture(autouse=True)
def _names_for_docstrings(doctest_namespace):
    doctest_namespace.update(keras=keras, np=np, tf=tf, tf_wcd=tf_wcd)


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Compiled programs of models that are gone live on in reference cycles until they are collected."""
    yield
    keras.utils.clear_session(free_memory=True)
    gc.collect()
