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
from tf_wcd.datasets import sources as sources_by_name
from tf_wcd.units import names as unit_names

# XLA reads its options once, and tests compile before the library does.
tf_wcd.xla.allow_small_loops()


def pytest_collection_finish():
    """What is imported stays: collections of what tests leave behind need not look at all of TensorFlow each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks as slow what `tests/slow_cases.txt` lists."""
    lines = (config.rootpath / "tests" / "slow_cases.txt").read_text().splitlines()
    listed = {line for line in lines if not line.startswith("#")}
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)
    if not any("::" in argument for argument in config.args):
        files = {item.nodeid.partition("::")[0] for item in items}
        gone = {name for name in listed if name.partition("::")[0] in files} - {item.nodeid for item in items}
        if gone:
            raise pytest.UsageError(f"tests/slow_cases.txt lists tests that are not there. Received: {sorted(gone)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compiling with XLA takes most of a small test's time, so only tests marked `xla` or `slow` do so.

    The same goes for the processes that they start. Nor do the others' graphs run often enough to be optimised.
    """
    marked = any(item.get_closest_marker(name) for name in ("xla", "slow"))
    tf_wcd.xla.BY_DEFAULT = marked or "TF_WCD_TEST_XLA" in os.environ
    os.environ["TF_WCD_XLA"] = str(int(tf_wcd.xla.BY_DEFAULT))
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not tf_wcd.xla.BY_DEFAULT})


@pytest.fixture(autouse=True)
def _names_for_docstrings(doctest_namespace):
    doctest_namespace.update(keras=keras, np=np, tf=tf, tf_wcd=tf_wcd)


@pytest.fixture
def names_as_before():
    """For code that adds to what the library knows by name: pages and examples do."""
    registries = sources_by_name.SOURCES, tf_wcd.negative_phases.PHASES, unit_names.UNITS
    before = [dict(registry) for registry in registries]
    yield
    for registry, things in zip(registries, before, strict=True):
        for name in list(registry):
            registry.unregister(name)
        for name, thing in things.items():
            registry.register(name, thing)


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Compiled programs of models that are gone live on in reference cycles until they are collected."""
    yield
    keras.utils.clear_session(free_memory=True)  # it collects
