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

# Run by other programs, in environments of their own.
collect_ignore = ["tests/bounds_smoke.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compiling with XLA takes most of a small test's time, so only tests marked `xla` or `slow` do so.

    The same goes for the processes that they start.
    """
    marked = any(item.get_closest_marker(name) for name in ("xla", "slow"))
    tf_wcd.xla.BY_DEFAULT = marked or "TF_WCD_TEST_XLA" in os.environ
    os.environ["TF_WCD_XLA"] = str(int(tf_wcd.xla.BY_DEFAULT))


@pytest.fixture(autouse=True)
def _names_for_docstrings(doctest_namespace):
    doctest_namespace.update(keras=keras, np=np, tf=tf, tf_wcd=tf_wcd)


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Compiled programs of models that are gone live on in reference cycles until they are collected."""
    yield
    keras.utils.clear_session(free_memory=True)
    gc.collect()
