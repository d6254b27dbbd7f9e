"""The small problems against their descriptions."""

import numpy as np
import pytest

import tf_wcd
from tests import brute_force as bf

SIZES = {
    "BS09": (14, 9), "BS16": (30, 16), "LSE11": (48, 11), "LSE15": (192, 15), "P08": (128, 8), "P10": (512, 10),
    "Int12": (4096, 12), "Mult3G": (4096, 12), "Mult3D": (4096, 12),
}  # fmt: skip


def independent_kl(states, p):
    """KL of the best model of independent bits: sum of the bits' entropies minus the entropy of the target."""
    q = p @ states
    entropy_bits = -(q * np.log(q) + (1 - q) * np.log(1 - q)).sum()
    return entropy_bits + (p[p > 0] * np.log(p[p > 0])).sum()


@pytest.mark.parametrize("name", SIZES)
def test_sizes_types_and_sums(name):
    states, p = tf_wcd.datasets.load(name)
    assert states.shape == SIZES[name]
    assert states.dtype == np.float32
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p > 0).all()
    assert set(np.unique(states)) == {0.0, 1.0}
    assert len(np.unique(states, axis=0)) == len(states)


@pytest.mark.parametrize(("name", "side"), [("BS09", 3), ("BS16", 4)])
def test_bars_and_stripes(name, side):
    states, _ = tf_wcd.datasets.load(name)
    pictures = states.reshape(-1, side, side)
    rows_flat = (pictures == pictures[:, :, :1]).all((1, 2))
    columns_flat = (pictures == pictures[:, :1, :]).all((1, 2))
    assert (rows_flat | columns_flat).all()
    assert (rows_flat & columns_flat).sum() == 2


@pytest.mark.parametrize(("name", "bits"), [("LSE11", 4), ("LSE15", 6)])
def test_shifter_is_cyclic_and_labelled(name, bits):
    states, _ = tf_wcd.datasets.load(name)
    first, second, label = np.split(states, [bits, 2 * bits], axis=1)
    assert (label.sum(1) == 1).all()
    for column, shift in enumerate((-1, 0, 1)):
        here = label[:, column] == 1
        assert here.sum() == 2**bits
        np.testing.assert_array_equal(second[here], np.roll(first[here], shift, axis=1))


def test_parity_is_even():
    for name in ("P08", "P10"):
        assert (tf_wcd.datasets.load(name)[0].sum(1) % 2 == 0).all()


def test_gaussian_problems_have_the_ratio_and_the_papers_figure():
    states, p = tf_wcd.datasets.load("Int12")
    assert p[0] / p[-1] == pytest.approx(1000)
    assert np.all(np.diff(p) < 0)
    np.testing.assert_array_equal(bf.index_of(states), np.arange(4096))
    np.testing.assert_allclose(np.log(p[0] / p[1]), np.log(1000) / 4095**2)
    states, p = tf_wcd.datasets.load("Mult3G")
    assert p.max() / p.min() == pytest.approx(1000)
    assert p[bf.index_of(states) % 3 == 0].min() > p[bf.index_of(states) % 3 != 0].max()
    # The paper's CD_1 figure for Mult3G is the best that independent bits can do.
    assert independent_kl(states, p) == pytest.approx(0.5453, abs=1e-4)


def test_mult3d_groups():
    states, p = tf_wcd.datasets.load("Mult3D")
    remainder = bf.index_of(states) % 3
    for group, total in enumerate((0.6, 0.3, 0.1)):
        assert p[remainder == group].sum() == pytest.approx(total)
        assert np.ptp(p[remainder == group]) == 0
    assert np.sum(p * np.log(p * 4096)) == pytest.approx(0.2005, abs=1e-4)  # KL of the uniform model


def test_unknown_name():
    with pytest.raises(ValueError, match=r"BS09.*Received: 'BS10'"):
        tf_wcd.datasets.load("BS10")
