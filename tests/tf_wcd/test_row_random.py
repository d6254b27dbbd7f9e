"""Random numbers keyed by rows: they belong to the row alone, and are as good as those of one key."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_wcd.test_batch_random import chi_square_z
from tf_wcd.random import row_keys, row_uniform


def numbers(seeds, draw=0, width=64, purpose=0):
    return row_uniform(row_keys(tf.constant(seeds, tf.int64), purpose), draw, width).numpy()


def test_a_row_depends_on_its_own_seed_alone():
    seeds = np.random.default_rng(0).integers(-(2**63), 2**63, 64)
    together = numbers(seeds, 5, 37)
    for i in (0, 1, 31, 63):
        np.testing.assert_array_equal(together[i : i + 1], numbers(seeds[i : i + 1], 5, 37))
    order = np.random.default_rng(1).permutation(64)
    np.testing.assert_array_equal(together[order], numbers(seeds[order], 5, 37))
    np.testing.assert_array_equal(together[:, :5], numbers(seeds, 5, 5))


def test_draw_numbers_of_rows():
    seeds = np.arange(4)
    each = row_uniform(row_keys(tf.constant(seeds, tf.int64)), tf.constant([3, 1, 4, 1]), 20).numpy()
    for i, draw in enumerate([3, 1, 4, 1]):
        np.testing.assert_array_equal(each[i], numbers(seeds[i : i + 1], draw, 20)[0])


def test_the_bits_do_not_change_between_versions():
    """Served samples are reproducible only if these stay."""
    assert (numbers([7, -7], 9, 3, purpose=2) * 2**24).astype(int).tolist() == [
        [15904949, 15117207, 4065489],
        [12053193, 1245273, 10411415],
    ]


def test_every_bit_of_a_seed_and_the_purpose_count():
    base = 0x0123456789ABCDEF
    rows = numbers([base, *(base ^ (1 << bit) for bit in range(63)), base - 2**63], width=8)
    rows = np.concatenate([rows, *(numbers([base], width=8, purpose=p) for p in (1, 2, 3))])
    assert len(np.unique(rows, axis=0)) == len(rows)
    # Neighbouring seeds share nothing: correlations are those of independent numbers.
    wide = np.concatenate([numbers([base ^ (1 << bit) for bit in range(62)], width=4096)])
    z = np.corrcoef(wide)[np.triu_indices(62, 1)] * np.sqrt(4096)
    assert np.abs(z).max() < 5
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)


@pytest.mark.parametrize("seeds", ["consecutive", "strided", "random"])
def test_equidistribution(seeds):
    rows = {
        "consecutive": np.arange(-500, 500),
        "strided": np.arange(1000) * 2**32,
        "random": np.random.default_rng(0).integers(-(2**63), 2**63, 1000),
    }[seeds]
    u = numbers(rows, width=1000)
    assert abs(chi_square_z(np.histogram(u, 1000, (0, 1))[0])) < 4
    # Pairs: neighbouring columns, neighbouring rows, the same place in the next draw.
    following = numbers(rows, draw=1, width=1000)
    for a, b in ((u[:, :-1], u[:, 1:]), (u[:-1], u[1:]), (u, following), (u[:, 1:], following[:, :-1])):
        counts = np.histogram2d(a.ravel(), b.ravel(), 32, [[0, 1], [0, 1]])[0]
        assert abs(chi_square_z(counts)) < 4
    # Down one column, over the seeds: each column is equidistributed by itself.
    z = [chi_square_z(np.histogram(u[:, j], 20, (0, 1))[0]) for j in range(0, 1000, 10)]
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z)) + 0.05
    assert np.max(z) < 7  # chi-square of 19 degrees has a long upper tail


def test_independence_across_draws():
    streams = np.stack([numbers([11], draw, 4096)[0] for draw in range(64)])
    z = np.corrcoef(streams)[np.triu_indices(64, 1)] * np.sqrt(4096)
    assert np.abs(z).max() < 5
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)
