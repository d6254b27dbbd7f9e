"""Evaluation stays within the memory that the user allows, and a long stream within what it had at first."""

import ctypes
import gc
import pathlib
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd

MEGABYTE = 2**20
# What compiled programs, small arrays and the allocator take besides.
SLACK = 24 * MEGABYTE


def memory(name):
    """Bytes, of this process: ``VmRSS`` now, or ``VmHWM`` at most since `forget_peak`."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def growth(work):
    """Most memory that a piece of work takes; it is run once before, so that nothing is compiled then."""
    work()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    before = memory("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak
    work()
    return memory("VmHWM") - before


def layer(visible, hidden):
    rbm = tf_wcd.RBMLayer(hidden, kernel_initializer=keras.initializers.RandomNormal(stddev=0.1, seed=1), seed=0)
    rbm.build((None, visible))
    return rbm


@pytest.mark.slow
def test_exact_evaluation():
    rbm = layer(12, 8000)
    limit = 12 * MEGABYTE
    values = []
    assert growth(lambda: values.append(tf_wcd.evaluation.log_partition(rbm, memory_limit=limit))) < limit + SLACK
    assert growth(lambda: values.append(tf_wcd.evaluation.log_partition(rbm))) > limit + SLACK
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    x = np.random.default_rng(0).integers(0, 2, (3000, 12))
    found = []
    work = lambda: found.append(tf_wcd.evaluation.log_prob(rbm, x, memory_limit=limit))  # noqa: E731
    assert growth(work) < limit + SLACK
    np.testing.assert_allclose(found[-1], tf_wcd.evaluation.log_prob(rbm, x), rtol=1e-10)
    with pytest.raises(ValueError, match="memory_limit=0"):
        tf_wcd.evaluation.log_partition(rbm, memory_limit=0)


def test_parzen():
    rng = np.random.default_rng(0)
    samples, test = rng.random((4000, 50), "float32"), rng.random((8000, 50), "float32")
    limit = 6 * MEGABYTE
    values = []

    def evaluate(limit):
        values.append(tf_wcd.evaluation.parzen_log_likelihood(samples, test, 0.3, memory_limit=limit))

    assert growth(lambda: evaluate(limit)) < limit + SLACK
    assert growth(lambda: evaluate(200 * MEGABYTE)) > limit + SLACK
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@pytest.mark.slow
def test_a_stream_of_five_million_rows():
    """Memory at the end is within 5 % of that after a minute, or after a million rows where these take less.

    The rows are made as they come: 100 numbers each, 2 GB in all if they were stored.
    """
    rows, batch = 5_000_000, 5000

    def make(number):
        return tf.cast(tf.random.stateless_uniform([batch, 100], [number, 1]) < 0.3, tf.float32)

    seen = []

    def look(number, logs=None):
        seen.append((time.monotonic(), number, memory("VmRSS")))

    rbm = tf_wcd.RBMLayer(50, negative_phase="wpcd", chains=100, seed=0)
    rbm.compile(keras.optimizers.SGD(0.01), steps_per_execution=10)
    dataset = tf.data.Dataset.range(rows // batch).map(make)
    rbm.fit(dataset, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=look)])
    assert int(rbm.optimizer.iterations) == 1000
    start = seen[0][0]
    early = next(rss for at, number, rss in seen if at - start > 60 or number >= 200)
    late = seen[-1][2]
    print(f"{seen[-1][0] - start:.0f} s, {early / MEGABYTE:.0f} MB early on, {late / MEGABYTE:.0f} MB at the end")
    assert late < 1.05 * early
    assert max(rss for *_, rss in seen) - seen[0][2] < 600 * MEGABYTE  # far from the 2 GB of all rows


@pytest.mark.slow
def test_annealing():
    rbm = layer(20, 600)
    limit = 6 * MEGABYTE

    def evaluate(limit):
        tf_wcd.evaluation.annealed_log_partition(
            rbm, chains=20_000, temperatures=4, reverse=False, base=np.full(20, 0.5), seed=0, memory_limit=limit
        )

    # The starts of all chains are there besides, in a few copies.
    starts = 4 * 20_000 * 20 * 4
    assert growth(lambda: evaluate(limit)) < limit + starts + SLACK
    assert growth(lambda: evaluate(500 * MEGABYTE)) > limit + starts + SLACK
