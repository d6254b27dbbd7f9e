"""RBMs that say what is known of unknown entries: imputation, and free energies of the known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer, check_seed
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, key_of, subkey
from tf_wcd.sampling.unknown import (
    clamped_draw,
    clamped_mean,
    exact_draw,
    exact_mean,
    is_enumerable,
    known_free_energy,
)
from tf_wcd.training.inputs.labels import one_hot_for_all
from tf_wcd.training.labelled_model import LabelledModel

ROWS_AT_A_TIME = 500


class ImputingModel(LabelledModel):
    """One RBM, or several along leading axes, whose rows may have unknown entries, NaN."""

    def impute(
        self, x: Any, samples: bool = False, gibbs_steps: int = 1000, seed: int | None = None, labels: Any = None
    ) -> tf.Tensor:
        """Fills in unknown entries, NaN, given the known ones of their row.

        Models of few units on one side (2^10 states, ten binary units) do so exactly. Others run chains of Gibbs
        sampling with the known entries held, which start with the unknown ones in the middle of their range.

        Args:
            x: ``[n, columns of the data]``, or images. A unit of several columns is unknown in all of them.
            samples: draw the unknown entries, jointly for each row. Otherwise they get their expectations: of 0/1 units
                the probability of 1, say. Those of chains are averages over the second half of the steps.
            gibbs_steps: steps of chains, where these are needed.
            seed: an integer for reproducible numbers; if not given, each call draws new ones.
            labels: class of each row, of a layer with ``classes``: one number for all, or one for each row. Without
                them the labels are unknown, too.

        Returns:
            ``x`` with its unknown entries filled in; of an ensemble ``[count, *shape of x]``. Known entries are as they
            were.

        Example:

        >>> rbm = tf_wcd.RBMLayer(3, kernel_initializer="zeros")
        >>> rbm.impute([[1, np.nan], [np.nan, 0]]).numpy().tolist()
        [[1.0, 0.5], [0.5, 0.0]]
        """
        if self.conditions:
            self.machine()  # whose error says which RBM to take
        data, steps = self.checked_data(x, missing=True), tf.constant(check_integer("gibbs_steps", gibbs_steps))
        if labels is not None:
            self.require_classes(f"labels of type {type(labels).__name__}")
        rows = self._with_unknown_labels(data, labels)
        key = self.sampling_key(seed)
        parts = []
        for number, start in enumerate(range(0, len(rows), ROWS_AT_A_TIME)):
            chunk = tf.constant(rows[start : start + ROWS_AT_A_TIME])
            function = _samples if samples else _means
            parts.append(call_compiled(function, self, chunk, steps, subkey(key, number), jit_compile=None))
        return self.shaped_as(x, tf.concat(parts, axis=-2)[..., : self.data_width])

    def sampling_key(self, seed: int | None) -> tf.Tensor:
        """The key, uint32 [2], of samples or of an estimate: that of the seed, or a new one for ``None``."""
        seed = check_seed(seed)
        return key_of(self.sampling_seed_generator.next() if seed is None else tf.constant([seed, 0], tf.int64))

    def free_energy(self, x: Any) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)), ``[n]`` for x ``[n, visible units]``.

        With ``classes``, rows without labels have the free energy of the data, in which the labels are summed over,
        too; rows of `with_labels` have that of data and label. With ``missing="nan"``, the unknown entries of a row
        are summed over, where the model has few enough units on one side for exact sums.
        """
        if not self.missing or not tf.executing_eagerly():
            return super().free_energy(x)
        lacking = self._lacks_labels(x)
        x = self.visible_tensor(x, labels=not lacking)
        if not bool(tf.reduce_any(tf.math.is_nan(x))):
            return super().free_energy(x)
        rows = x.numpy()
        if lacking:
            rows = self._with_unknown_labels(self.checked_data(rows, missing=True))
        else:
            rows = self.checked_visible(rows, missing=True)
        return free_energy_of_known(self.machine(), tf.constant(rows))

    def _with_unknown_labels(self, x: np.ndarray, labels: Any = None) -> np.ndarray:
        """Rows of all visible units, the labels included: those given, or unknown ones."""
        if not self.classes:
            return x
        if labels is None:
            columns = np.full([len(x), self.classes], np.nan, x.dtype)
        else:
            columns = one_hot_for_all(labels, self.classes, len(x), self.variable_dtype)
        return np.concatenate([x, columns], axis=1)


def free_energy_of_known(machine: Machine, rows: tf.Tensor) -> tf.Tensor:
    """F of the known entries of rows, ``[..., n]``, in chunks.

    Raises:
        ValueError: if no side of the machine can be enumerated.
    """
    if not is_enumerable(machine):
        raise ValueError(
            "Rows with unknown entries have an exact probability only where one side of the model has at most 2^10 "
            "states: fill them in, by `impute`. "
            f"Received: NaN, and {machine.num_visible} visible x {machine.num_hidden} hidden units"
        )
    starts = range(0, rows.shape[-2], ROWS_AT_A_TIME)
    chunks = (rows[..., start : start + ROWS_AT_A_TIME, :] for start in starts)
    return tf.concat([known_free_energy(machine, chunk, tf.math.is_nan(chunk)) for chunk in chunks], axis=-1)


def _means(machine: Machine, rows: tf.Tensor, steps: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    rows, unknown = _of_members(machine, rows)
    if is_enumerable(machine):
        return exact_mean(machine, rows, unknown)
    return clamped_mean(machine, rows, unknown, steps, batch_source(key))


def _samples(machine: Machine, rows: tf.Tensor, steps: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    rows, unknown = _of_members(machine, rows)
    if is_enumerable(machine):
        return exact_draw(machine, rows, unknown, batch_source(key))
    return clamped_draw(machine, rows, unknown, steps, batch_source(key))


def _of_members(machine: Machine, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows for every member, and where they are unknown."""
    rows = tf.broadcast_to(rows, tf.concat([tf.constant(machine.members, tf.int32), tf.shape(rows)], axis=0))
    return rows, tf.math.is_nan(rows)
