"""Pictures: what is in them."""

import numpy as np

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
