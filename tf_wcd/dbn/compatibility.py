"""Whether layers fit on each other: found out before any training, with both layers named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tf_wcd.layer import RBMLayer


def check_layers(layers: Any) -> list[RBMLayer]:
    """The layers of a stack, checked for their kinds of units and, as far as they are known, their sizes."""
    if not isinstance(layers, Sequence) or not layers:
        raise ValueError(f"`layers` must be a list of at least one RBMLayer. Received: layers={layers!r}")
    for number, layer in enumerate(layers):
        if not isinstance(layer, RBMLayer):
            raise ValueError(f"Every layer of a DBN must be an RBMLayer. Received: {layer!r} as layer {number}")
        if layer.conditions:
            raise ValueError(
                "Layers of a DBN have no conditions: nothing says what those of a hidden layer would be. "
                f"Received: conditions={layer.conditions} in layer {number}, {layer.name!r}"
            )
        if layer.visible_shape is not None and number:
            raise ValueError(
                "The data have a shape, and hidden units have none: `visible_shape` is for the first layer. "
                f"Received: visible_shape={layer.visible_shape} in layer {number}, {layer.name!r}"
            )
    if len({id(layer) for layer in layers}) < len(layers):
        raise ValueError(
            f"A layer can be in a DBN only once. Received: layers named {[layer.name for layer in layers]}"
        )
    for number, (below, above) in enumerate(itertools.pairwise(layers)):
        if below.visible_unit.classes:
            raise ValueError(
                f"Labels can be joined to the top layer only, {layers[-1].name!r}. "
                f"Received: labelled visible units in layer {number}, {below.name!r}"
            )
        _check_pair(number, below, above)
    return list(layers)


def widths_of(layers: Sequence[RBMLayer], width: int) -> list[int]:
    """Number of visible columns of each layer, where the data have the given width (without labels)."""
    widths = [width, *(layer.units for layer in layers[:-1])]
    widths[-1] += layers[-1].visible_unit.classes
    return widths


def _check_pair(number: int, below: RBMLayer, above: RBMLayer) -> None:
    here = f"layer {number + 1}, {above.name!r}, does not fit on layer {number}, {below.name!r}"
    unit = above.visible_unit.without_labels()
    if unit != below.hidden_unit:
        raise ValueError(
            f"The visible units of a layer are the hidden units of the layer below it: {here}. "
            f"Received: {below.hidden_unit.name!r} hidden units in {below.name!r} and {unit.name!r} visible units in "
            f"{above.name!r}"
        )
    classes = above.visible_unit.classes
    expected = below.units + classes
    if above.built and above.num_visible != expected:
        labels = f" and {classes} labels" if classes else ""
        raise ValueError(
            f"A layer has one visible unit for each hidden unit of the layer below it: {here}. "
            f"Received: {below.units} hidden units in {below.name!r}{labels}, and {above.num_visible} visible units in "
            f"{above.name!r}"
        )
