"""Units with a label beside them."""

from __future__ import annotations

from typing import Any

import keras

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit
from tf_wcd.units.mixed import Mixed, _unit_of
from tf_wcd.units.names import get, serialize
from tf_wcd.units.potts import Potts


@keras.saving.register_keras_serializable(package="tf_wcd")
class Labelled(Mixed):
    """Units of one kind, followed by a label in one-hot coding: one `Potts` unit in the last ``classes`` columns.

    It joins labels to the data of an RBM, or to the units that the top RBM of a Deep Belief Network sees.

    Args:
        base: the units in front of the label: a unit type or its name.
        classes: number of labels, at least 2.

    Example:

    >>> unit = Labelled("bernoulli", classes=2)
    >>> unit.mean(tf.zeros([1, 5])).numpy().tolist()
    [[0.5, 0.5, 0.5, 0.5, 0.5]]
    >>> unit.classes
    2
    """

    name = "labelled"

    def __init__(self, base: str | Unit = "bernoulli", classes: int = 10) -> None:
        self.classes = check_integer("classes", classes, least=2)
        super().__init__([(get(_unit_of(base)), None), (Potts(classes), classes)])

    def without_labels(self) -> Unit:
        return self.units[0]

    def part_of(self, column: int, columns: int) -> tuple[Unit, slice]:
        return self, slice(0, columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.units[0]!r}, {self.classes})"

    def domain(self) -> str:
        return f"{self.units[0].domain()}, with the sum 1 in the last {self.classes} columns"

    def state_domain(self) -> str:
        return f"{self.units[0].state_domain()}, with one of the last {self.classes} columns 1 and the others 0"

    def get_config(self) -> dict[str, Any]:
        return {"base": serialize(self.units[0]), "classes": self.classes}


def with_labels(unit: Unit, classes: int) -> Unit:
    """The units with a label beside them.

    Example:

    >>> with_labels(get("spin"), 3).classes
    3
    """
    if unit.classes:
        raise ValueError(
            f"The visible units have {unit.classes} labels already: give `classes` or labelled units, not both. "
            f"Received: classes={classes!r} and visible_type={unit!r}"
        )
    return Labelled(unit, classes)
