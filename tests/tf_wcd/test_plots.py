"""Pictures: what is in them."""

import numpy as np
import pytest

import tf_wcd
from tf_wcd import plots


def test_every_curve_and_every_model_is_drawn():
    """More of them than there are colours: these come again."""
    count = len(plots.COLORS) + 2
    names = [f"run {i}" for i in range(count)]
    figure = plots.compare_training(
        np.full(4, 0.25), {name: ([1, 2], [0.5, 0.4]) for name in names}, {name: np.eye(4)[0] for name in names}, "many"
    )
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == names
    assert [line.get_label() for line in right.lines] == ["target", *names]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*names, "target"]
    assert left.lines[0].get_color() == left.lines[len(plots.COLORS)].get_color()


def test_weights_of_named_columns():
    pandas = pytest.importorskip("pandas")
    rbm = tf_wcd.RBMLayer(4, classes=2, seed=0)
    rbm.compile("sgd", jit_compile=False)
    rbm.fit(pandas.DataFrame({"a": [0, 1], "b": [1, 1], "c": [0, 0]}), [0, 1], verbose=0)
    kernel = np.zeros((5, 4))
    kernel[:, 2], kernel[1, 0], kernel[4, 3] = [1, -2, 3, 0, 0], 0.5, 9.0  # the last two rows are those of the labels
    rbm.kernel.assign(kernel)
    axes = plots.weight_map(rbm, units=2).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "0"]
    np.testing.assert_array_equal(axes.images[0].get_array(), kernel[:3, [2, 0]])
    assert axes.images[0].get_clim() == (-3, 3)
    plain = tf_wcd.RBMLayer(1)
    plain.build((None, 2))
    names = plots.weight_map(plain).axes[0].get_yticklabels()
    assert [text.get_text() for text in names] == ["0", "1"]
