"""The mathematics of one RBM, without state: unit types and parameter tensors in, energies and conditionals out.

Energy(x, h) = base(x) + base(h) - b.x - c.h - x W h

Every method takes states as rows, ``[..., rows, units]``. Leading axes are independent machines: parameters of shape
``[R, ...]`` describe R machines at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_wcd.random import Source
from tf_wcd.shapes import static_shape, with_shape
from tf_wcd.units import Unit


@dataclasses.dataclass(frozen=True)
class Machine:
    """An RBM as a value.

    Attributes:
        visible: type of the visible units, bound to its parameters.
        hidden: type of the hidden units, bound to its parameters.
        kernel: ``[..., n_v, n_h]``.
        visible_bias: ``[..., n_v]``.
        hidden_bias: ``[..., n_h]``.
        product_dtype: type in which the matrix products are computed, where it is not the kernel's (mixed precision).
    """

    visible: Unit
    hidden: Unit
    kernel: tf.Tensor
    visible_bias: tf.Tensor
    hidden_bias: tf.Tensor
    product_dtype: str | None = None

    @property
    def num_visible(self) -> int:
        """Columns of the visible side."""
        return self.kernel.shape[-2]

    @property
    def num_hidden(self) -> int:
        """Columns of the hidden side."""
        return self.kernel.shape[-1]

    @property
    def members(self) -> tuple[int, ...]:
        """Leading axes: the number of machines, for several at once; empty for one."""
        return tuple(self.kernel.shape[:-2])

    def cast(self, dtype: str) -> Machine:
        """The machine with its parameters, and its products, in another type."""

        def wide(values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {name: tf.cast(value, dtype) for name, value in values.items()}

        return Machine(
            visible=self.visible.bind(wide(self.visible.parameters)),
            hidden=self.hidden.bind(wide(self.hidden.parameters)),
            **wide({name: getattr(self, name) for name in ("kernel", "visible_bias", "hidden_bias")}),
        )

    def tempered(self, inverse_temperatures: Any) -> Machine:
        """Machines at several temperatures: the fields of each multiplied by its inverse temperature.

        The base energy of the units is not tempered, or real units would have no finite normaliser at 0.

        Args:
            inverse_temperatures: ``[R]``. The result has a leading axis of this length.
        """
        beta = tf.cast(inverse_temperatures, self.kernel.dtype)
        return dataclasses.replace(
            self,
            kernel=beta[:, None, None] * self.kernel,
            visible_bias=beta[:, None] * self.visible_bias,
            hidden_bias=beta[:, None] * self.hidden_bias,
        )

    def product(self, a: tf.Tensor, b: tf.Tensor, **kwargs: bool) -> tf.Tensor:
        """A matrix product in the product type; the result has the kernel's type."""
        axes, others = (tf.TensorShape(each.shape).rank or 0 for each in (a, b))
        if axes > 3 and others == 2 and not kwargs.get("transpose_a"):
            # As one matrix: TensorFlow 2.21 writes the product of more axes, one of them of length 1, beyond its memory
            # (oneDNN, on processors with AVX-512).
            *leading, width = static_shape(tf.convert_to_tensor(a))
            whole = self.product(tf.reshape(a, [-1, width]), b, **kwargs)
            return tf.reshape(whole, [*leading, static_shape(whole)[-1]])
        if self.product_dtype is None:
            return tf.matmul(a, b, **kwargs)
        narrow = tf.matmul(tf.cast(a, self.product_dtype), tf.cast(b, self.product_dtype), **kwargs)
        return tf.cast(narrow, self.kernel.dtype)

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        """The field of the hidden units: c + W x."""
        return self.product(visible, self.kernel) + self.hidden_bias[..., None, :]

    def hidden_fields(self, *visible: tf.Tensor) -> list[tf.Tensor]:
        """`hidden_field` of several sets of rows, by one matrix product."""
        rows = [static_shape(states)[-2] for states in visible]
        parts = tf.split(self.hidden_field(tf.concat(visible, axis=-2)), rows, axis=-2, num=len(visible))
        # Next to a set of unknown length none has a known one: what resamples points asks for theirs.
        return [
            with_shape(part, [*part.shape[:-2], states.shape[-2], part.shape[-1]])
            for part, states in zip(parts, visible, strict=True)
        ]

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        """The field of the visible units: b + h W."""
        if not self._transposes_first:
            return self.product(hidden, self.kernel, transpose_b=True) + self.visible_bias[..., None, :]
        kernel = tf.concat([tf.linalg.matrix_transpose(self.kernel), self.visible_bias[..., None, :]], axis=-2)
        return tf.matmul(tf.concat([hidden, tf.ones_like(hidden[..., :1])], axis=-1), kernel)

    @property
    def _transposes_first(self) -> bool:
        """Whether matrices are transposed before they are multiplied.

        Several machines at once are many small products. XLA has quick code only for products without a transposed
        operand: on two cores the product of the visible fields of 100 machines of 9 x 45 units took 0.27 ms with one,
        several times as long as that of the hidden fields, which has as many operations. XLA would fold a bare
        transpose into the product again; it does not where the bias is one more row of the transposed matrix, or where
        several are transposed and then joined.
        """
        return bool(self.members) and self.product_dtype is None

    def correlation(self, visible: Sequence[tf.Tensor], columns: tf.Tensor) -> tf.Tensor:
        """The transpose of all visible rows, one set under the other, times ``columns``."""
        if not self._transposes_first:
            return self.product(tf.concat(visible, axis=-2), columns, transpose_a=True)
        return tf.matmul(tf.concat([tf.linalg.matrix_transpose(rows) for rows in visible], axis=-1), columns)

    def sample_hidden(self, hidden_field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        """Hidden states drawn in a field, by the numbers of a draw of the source."""
        return self.hidden.sample(hidden_field, source(draw, hidden_field))

    def sample_visible(self, visible_field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        """Visible states drawn in a field, by the numbers of a draw of the source."""
        return self.visible.sample(visible_field, source(draw, visible_field))

    def reconstruct(self, hidden_field: tf.Tensor) -> tf.Tensor:
        """E[x | E[h]] for hidden units in a field."""
        return self.visible.mean(self.visible_field(self.hidden.mean(hidden_field)))

    def energy(
        self,
        visible: tf.Tensor,
        hidden: tf.Tensor,
        visible_field: tf.Tensor | None = None,
        hidden_field: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Energy of each pair of rows. Pass the field of either side where it is at hand already."""
        if visible_field is not None:
            own = self._side_energy(hidden, self.hidden, self.hidden_bias)
            return own + self._with_base(-tf.reduce_sum(visible_field * visible, axis=-1), visible, self.visible)
        field = self.hidden_field(visible) if hidden_field is None else hidden_field
        own = self._side_energy(visible, self.visible, self.visible_bias)
        return own + self._with_base(-tf.reduce_sum(field * hidden, axis=-1), hidden, self.hidden)

    def free_energy(self, visible: tf.Tensor, hidden_field: tf.Tensor | None = None) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)). Pass ``hidden_field`` where it is at hand already."""
        field = self.hidden_field(visible) if hidden_field is None else hidden_field
        return self._side_energy(visible, self.visible, self.visible_bias) - self.hidden.total_cumulant(field)

    def hidden_free_energy(self, hidden: tf.Tensor) -> tf.Tensor:
        """-log of the sum (integral) over x of exp(-Energy(x, h))."""
        field = self.visible_field(hidden)
        return self._side_energy(hidden, self.hidden, self.hidden_bias) - self.visible.total_cumulant(field)

    def _side_energy(self, states: tf.Tensor, unit: Unit, bias: tf.Tensor) -> tf.Tensor:
        """The part of the energy that does not depend on the other side."""
        return self._with_base(-tf.matmul(states, bias[..., None])[..., 0], states, unit)

    @staticmethod
    def _with_base(energy: tf.Tensor, states: tf.Tensor, unit: Unit) -> tf.Tensor:
        """An energy and the base energy of the states, where the unit has one."""
        base = unit.total_base_energy(states)
        return energy if base is None else energy + base
