"""What users pass as visible states, with a shape or as rows, and the shape of what they get."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.images import Shape, are_images, as_images, as_rows, width_of
from tf_wcd.tables import array_of, is_table, table_of
from tf_wcd.training.model import TrainingModel
from tf_wcd.units import Unit


class StatesModel(TrainingModel):
    """A model that checks states of its visible units and reads images as rows of them."""

    visible_unit: Unit
    num_visible: int
    classes: int
    conditions: int
    visible_shape: Shape
    feature_names_in_: np.ndarray | None = None  # of the visible columns, where the model was trained on a frame

    @property
    def data_unit(self) -> Unit:
        """The kind of units of the data: the visible units, but for the labels of a layer with ``classes``."""
        return self.visible_unit.without_labels() if self.classes else self.visible_unit

    @property
    def data_width(self) -> int:
        """Columns of the data: ``num_visible``, but for the labels of a layer with ``classes``."""
        return self.num_visible - self.classes

    @property
    def known_data_width(self) -> int | None:
        """`data_width`, as far as it is known."""
        return self.data_width if self.built else width_of(self.visible_shape)

    def rows_of_inputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Inputs of the layer as rows, checked where they may be images: Keras' own check knows of one shape."""
        rows = as_rows(inputs, self.visible_shape)
        if self.visible_shape is not None and (rows.shape.rank != 2 or rows.shape[-1] != self.data_width):
            raise ValueError(
                f"`x` must have the shape {[None, *self.visible_shape]} or {[None, self.data_width]}. "
                f"Received: shape {inputs.shape}"
            )
        return rows

    def shaped_as(self, x: Any, rows: tf.Tensor) -> tf.Tensor:
        """Rows of visible units as images, where the data ``x`` that they were made of are such."""
        data = x[0] if self.conditions and isinstance(x, list | tuple) else x
        return as_images(rows, self.visible_shape) if are_images(data, self.visible_shape) else rows

    def visible_tensor(self, x: Any, labels: bool = True) -> tf.Tensor:
        """Visible states as a tensor ``[n, visible units]``; builds the layer for them.

        Args:
            x: what the user passed.
            labels: whether the rows have the columns of the labels, where the model has some.
        """
        if is_table(x) or not tf.is_tensor(x):
            x = array_of(x, names=self.feature_names_in_)
        x = as_rows(tf.cast(tf.convert_to_tensor(x), self.variable_dtype), self.visible_shape)
        if x.shape.rank != 2:
            raise ValueError(f"`x` must have the shape [n, visible units]. Received: shape {x.shape}")
        joined = self.classes if labels else 0
        if not self.built:
            self.build((None, x.shape[-1] - joined))
        if x.shape[-1] != self.data_width + joined:
            hint = f", with {joined} for the label: see `with_labels`" if joined else ""
            raise ValueError(
                f"`x` must have {self.data_width + joined} columns, one for each visible unit{hint}. "
                f"Received: shape {x.shape}"
            )
        return x

    def checked_visible(self, x: Any, what: str = "x", dtype: Any = None, **options: Any) -> np.ndarray:
        """States of all visible units as a checked array; builds the layer for them.

        Args:
            x: what the user passed.
            what: name of the argument, for messages.
            dtype: type of the result; that of the parameters if not given.
            **options: ``strict`` and ``missing`` of `tf_wcd.data_checks.check_visible`.
        """
        width, table = self.known_data_width, table_of(x, what)
        if self.classes and width and as_rows(table.values, self.visible_shape).shape[1:] == (width,):
            raise ValueError(
                f"`{what}` must have {width + self.classes} columns, one for each visible unit, with {self.classes} "
                f"for the label: see `with_labels`. Received: shape {table.values.shape}"
            )
        x = data_checks.check_visible(
            table,
            self.visible_unit,
            None if width is None else width + self.classes,
            what,
            dtype or self.variable_dtype,
            names=None if self.classes else self.feature_names_in_,
            shape=self.visible_shape,
            **options,
        )
        if not self.built:
            self.build((None, x.shape[1] - self.classes))
        return x

    def checked_data(self, x: Any, what: str = "x", **options: Any) -> np.ndarray:
        """Rows without labels as a checked array; builds the layer for them. Arguments are as for `checked_visible`."""
        x = data_checks.check_visible(
            x,
            self.data_unit,
            self.known_data_width,
            what,
            self.variable_dtype,
            names=self.feature_names_in_,
            shape=self.visible_shape,
            **options,
        )
        if not self.built:
            self.build((None, x.shape[1]))
        return x
