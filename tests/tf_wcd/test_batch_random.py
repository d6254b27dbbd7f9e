"""The generator: published answers, equidistribution, independence."""

import numpy as np
import pytest
import tensorflow as tf

from tf_wcd.random import batch as batch_random
from tf_wcd.random import key_of, mix, subkey, uniform


def test_mix_is_a_permutation_with_avalanche():
    """Distinct words stay distinct, and each bit of the argument flips each bit of the result half of the time."""
    words = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype="uint32")
    mixed = mix(tf.constant(words)).numpy()
    assert len(np.unique(mixed)) == len(np.unique(words))
    for bit in range(32):
        flipped = mixed ^ mix(tf.constant(words ^ np.uint32(1 << bit))).numpy()
        share = ((flipped[:, None] >> np.arange(32, dtype="uint32")) & 1).mean(0)
        # The permutation has a small bias of its own (below 1 %) beside the error of the sample.
        assert np.all(np.abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(words)) + 0.01)


def test_the_bits_do_not_change_between_versions():
    """Runs and served samples are reproducible only if these stay."""
    assert (uniform(key(7, 8), 9, [1, 4]).numpy() * 2**24).astype(int).tolist() == [
        [9270737, 9323437, 15048359, 13293555]
    ]


def key(a, b=0):
    return tf.constant([a, b], tf.uint32)


def test_the_same_bits_compiled_or_not():
    for shape in ([3, 7], [2, 5, 8], [1, 1]):
        plain = uniform(key(5, 6), 3, shape)
        compiled = tf.function(lambda s=shape: uniform(key(5, 6), 3, s), jit_compile=True)()
        np.testing.assert_array_equal(plain, compiled)


def test_numbers_are_inside_the_open_interval_and_symmetric():
    u = uniform(key(1), 0, [1000, 1000]).numpy()
    assert u.min() > 0
    assert u.max() < 1
    numerators = u.astype("float64") * 2**24
    assert np.all(numerators == np.round(numerators))
    assert np.all(numerators % 2 == 1)


def chi_square_z(counts: np.ndarray) -> float:
    """How many standard deviations the chi-square statistic of equal bins is from its mean."""
    expected = counts.sum() / counts.size
    statistic = ((counts - expected) ** 2 / expected).sum()
    degrees = counts.size - 1
    return (statistic - degrees) / np.sqrt(2 * degrees)


@pytest.mark.parametrize("seed", [0, 1, 123456789])
def test_equidistribution_in_one_and_two_dimensions(seed):
    u = uniform(key(seed), 0, [1000, 1000]).numpy().ravel()
    assert abs(chi_square_z(np.histogram(u, 1000, (0, 1))[0])) < 4
    # Every single bit that we use is fair.
    bits = ((u.astype("float64") * 2**23).astype("int64")[:, None] >> np.arange(23)) & 1
    assert np.all(np.abs(bits.mean(0) - 0.5) < 4 * 0.5 / np.sqrt(u.size))
    # Neighbours: in the row, across the two halves of a row, down the column.
    grid = u.reshape(1000, 1000)
    for a, b in ((grid[:, :-1], grid[:, 1:]), (grid[:, :500], grid[:, 500:]), (grid[:-1], grid[1:])):
        counts = np.histogram2d(a.ravel(), b.ravel(), 32, [[0, 1], [0, 1]])[0]
        assert abs(chi_square_z(counts)) < 4


@pytest.mark.parametrize("change", ["seed", "count", "draw"])
def test_independence_across_keys_and_draws(change):
    keys = {"seed": lambda i: (key(i, 9), 4), "count": lambda i: (key(9, i), 4), "draw": lambda i: (key(9, 4), i)}[
        change
    ]
    streams = np.stack([uniform(*keys(i), [1, 4096]).numpy()[0] for i in range(64)])
    # Correlations of 64 streams with each other: their squares, scaled, are a chi-square variable.
    z = np.corrcoef(streams)[np.triu_indices(64, 1)] * np.sqrt(4096)
    assert np.abs(z).max() < 5
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)
    # And the numbers at one place, from stream to stream, are uniform as well.
    assert abs(chi_square_z(np.histogram(streams, 256, (0, 1))[0])) < 4


def test_keys_of_a_seed_generator():
    distinct = {
        tuple(key_of(tf.constant([seed, count], tf.int64)).numpy())
        for seed in (0, 1, -1, 2**40, 2**40 + 1)
        for count in range(5)
    }
    assert len(distinct) == 25
    state = tf.constant([3, 4], tf.int64)
    assert key_of(state).numpy().tolist() != key_of(state, purpose=1).numpy().tolist()


def test_subkeys_differ_by_every_number_and_by_their_key():
    keys = [tf.constant(words, tf.uint32) for words in ([1, 2], [1, 3], [2, 2])]
    derived = [tuple(subkey(key, a, b).numpy()) for key in keys for a in range(5) for b in range(5)]
    assert len(set(derived)) == len(derived)
    np.testing.assert_array_equal(subkey(keys[0], 3, 4), subkey(subkey(keys[0], 3), 4))


def test_many_shapes_outside_of_graphs_are_not_traced(monkeypatch):
    def traced(*_):
        raise AssertionError("TensorFlow warns of functions that are traced at nearly every call")

    monkeypatch.setattr(batch_random, "_traced_uniform", traced)
    assert uniform(key(1, 2), 0, [3, 4]).shape == (3, 4)
