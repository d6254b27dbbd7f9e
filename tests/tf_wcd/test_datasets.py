"""The small problems against their descriptions, and data sets that users register."""

import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf

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


# Registration


def two_states():
    return np.eye(2, dtype="float32"), np.array([0.25, 0.75])


def image_set(name, read=lambda: {}):
    return tf_wcd.datasets.ImageSet(name=name, rows={"train": 1, "test": 1}, pixels=1, white=1, sha256={}, read=read)


@pytest.mark.usefixtures("names_as_before")
def test_a_registered_problem_is_loaded_by_its_name():
    tf_wcd.datasets.register("TwoStates", two_states)
    states, p = tf_wcd.datasets.load("TwoStates")
    assert states.tolist() == [[1, 0], [0, 1]]
    assert p.tolist() == [0.25, 0.75]
    assert tf_wcd.datasets.names("small")[-1] == "TwoStates"
    assert "TwoStates" not in tf_wcd.datasets.names("images")
    with pytest.raises(ValueError, match=r"Options are for images; TwoStates"):
        tf_wcd.datasets.load("TwoStates", validation=True)


@pytest.mark.usefixtures("names_as_before")
def test_registered_images_are_loaded_by_their_name(monkeypatch):
    monkeypatch.delenv("TF_WCD_DATA", raising=False)
    arrays = {
        name: np.ones((1, 1) if name[0] == "x" else 1, "uint8") for name in ("x_train", "y_train", "x_test", "y_test")
    }
    tf_wcd.datasets.register("coins", image_set("coins", lambda: arrays))
    (x, _), (x_test, _) = tf_wcd.datasets.load("coins")
    assert x.tolist() == x_test.tolist() == [[1]]
    assert tf_wcd.datasets.names("images")[-1] == "coins"


@pytest.mark.usefixtures("names_as_before")
def test_a_name_that_is_taken_is_refused():
    for taken, source in (("BS09", two_states), ("mnist", image_set("mnist")), ("mnist", two_states)):
        with pytest.raises(
            ValueError, match=rf"The name is taken, by tf_wcd\.datasets\..*Received: '{taken}' for tests"
        ):
            tf_wcd.datasets.register(taken, source)
    assert len(tf_wcd.datasets.load("BS09")[0]) == 14
    # The same code may be run again.
    for _ in range(2):
        tf_wcd.datasets.register("TwoStates", two_states)
        tf_wcd.datasets.register("coins", image_set("coins"))
    with pytest.raises(ValueError, match="The name is taken"):
        tf_wcd.datasets.register("TwoStates", image_set("TwoStates", lambda: {}))


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match=r"must be a function or an `ImageSet`. Received: source="):
        tf_wcd.datasets.register("TwoStates", two_states())
    with pytest.raises(ValueError, match=r"registered by its name, 'coins'. Received: name='money'"):
        tf_wcd.datasets.register("money", image_set("coins"))
    with pytest.raises(ValueError, match=r"A name must be a string"):
        tf_wcd.datasets.register("", two_states)
    with pytest.raises(ValueError, match=r"`kind` must be one of .*Received: kind='large'"):
        tf_wcd.datasets.names("large")


def test_views_of_the_registry_cannot_be_changed():
    assert list(tf_wcd.datasets.SMALL)[:9] == list(SIZES)
    assert "mnist" not in tf_wcd.datasets.SMALL
    assert "BS09" not in tf_wcd.datasets.IMAGES
    assert tf_wcd.datasets.IMAGES["mnist"].rows == {"train": 60000, "test": 10000}
    assert tf_wcd.datasets.names()[:9] == list(SIZES)
    with pytest.raises(TypeError, match="item assignment"):
        tf_wcd.datasets.SMALL["TwoStates"] = two_states
