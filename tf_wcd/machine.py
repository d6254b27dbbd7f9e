"""The mathematics of one RBM, without state: unit types and parameter tensors in, energies and conditionals out.

Energy(x, h) = base(x) + base(h) - b.x - c.h - x W h

Every method takes states as rows, ``[..., rows, units]``. Leading axes are independent machines: parameters of shape
``[R, ...]`` describe R machines at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tf_wcd.random_bits import uniform
from tf_wcd.units import Unit


@dataclasses.dataclass(frozen=True)
class Machine:
    """An RBM as a value.

    Attributes:
        visible: type of the visible units, bound to its parameters.
        hidden: type of the hidden units.
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
        return self.kernel.shape[-2]

    @property
    def num_hidden(self) -> int:
        return self.kernel.shape[-1]

    def product(self, a: tf.Tensor, b: tf.Tensor, **kwargs: bool) -> tf.Tensor:
        """A matrix product in the product type; the result has the kernel's type."""
        if self.product_dtype is None:
            return tf.matmul(a, b, **kwargs)
        narrow = tf.matmul(tf.cast(a, self.product_dtype), tf.cast(b, self.product_dtype), **kwargs)
        return tf.cast(narrow, self.kernel.dtype)

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        """What the hidden units feel: c + W x."""
        return self.product(visible, self.kernel) + self.hidden_bias[..., None, :]

    def hidden_fields(self, *visible: tf.Tensor) -> list[tf.Tensor]:
        """`hidden_field` of several sets of rows, by one matrix product."""
        rows = [static_shape(states)[-2] for states in visible]
        return tf.split(self.hidden_field(tf.concat(visible, axis=-2)), rows, axis=-2, num=len(visible))

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        """What the visible units feel: b + h W."""
        if not self._turns_matrices:
            return self.product(hidden, self.kernel, transpose_b=True) + self.visible_bias[..., None, :]
        kernel = tf.concat([tf.linalg.matrix_transpose(self.kernel), self.visible_bias[..., None, :]], axis=-2)
        return tf.matmul(tf.concat([hidden, tf.ones_like(hidden[..., :1])], axis=-1), kernel)

    @property
    def _turns_matrices(self) -> bool:
        """Whether products are written with their matrices the right way round.

        Several machines at once are many small products. XLA has quick code for those of matrices that lie the right
        way round only, so that others are worth turning first: on two cores the product of the visible fields of
        100 machines of 9 x 45 units took 0.27 ms the other way, several times as long as the one of the hidden fields,
        which has as many operations. XLA would fold a bare transpose into the product again; it does not where the
        bias is one more row of the turned matrix, or where several are turned and then joined.
        """
        return self.kernel.shape.rank > 2 and self.product_dtype is None

    def correlation(self, visible: Sequence[tf.Tensor], columns: tf.Tensor) -> tf.Tensor:
        """The transpose of all visible rows, one set under the other, times ``columns``."""
        if not self._turns_matrices:
            return self.product(tf.concat(visible, axis=-2), columns, transpose_a=True)
        return tf.matmul(tf.concat([tf.linalg.matrix_transpose(rows) for rows in visible], axis=-1), columns)

    def sample_hidden(self, hidden_field: tf.Tensor, key: tf.Tensor, draw: tf.Tensor | int) -> tf.Tensor:
        return self.hidden.sample(hidden_field, uniform(key, draw, static_shape(hidden_field), hidden_field.dtype))

    def sample_visible(self, visible_field: tf.Tensor, key: tf.Tensor, draw: tf.Tensor | int) -> tf.Tensor:
        return self.visible.sample(visible_field, uniform(key, draw, static_shape(visible_field), visible_field.dtype))

    def energy(self, visible: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
        """Energy of each pair of rows."""
        interaction = tf.reduce_sum(self.product(visible, self.kernel) * hidden, axis=-1)
        return (
            self._own_energy(visible, self.visible, self.visible_bias)
            + self._own_energy(hidden, self.hidden, self.hidden_bias)
            - interaction
        )

    def free_energy(self, visible: tf.Tensor, hidden_field: tf.Tensor | None = None) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)). Pass ``hidden_field`` where it is at hand already."""
        field = self.hidden_field(visible) if hidden_field is None else hidden_field
        return self._own_energy(visible, self.visible, self.visible_bias) - self.hidden.total_cumulant(field)

    def hidden_free_energy(self, hidden: tf.Tensor) -> tf.Tensor:
        """-log of the sum (integral) over x of exp(-Energy(x, h))."""
        field = self.visible_field(hidden)
        return self._own_energy(hidden, self.hidden, self.hidden_bias) - self.visible.total_cumulant(field)

    @staticmethod
    def _own_energy(states: tf.Tensor, unit: Unit, bias: tf.Tensor) -> tf.Tensor:
        """Energy of the units of one side by themselves."""
        energy = -tf.matmul(states, bias[..., None])[..., 0]
        base = unit.base_energy(states)
        return energy if base is None else energy + tf.reduce_sum(base, axis=-1)


def static_shape(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape as Python integers where they are known, and scalar tensors elsewhere."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[i] if n is None else n for i, n in enumerate(tensor.shape.as_list())]
