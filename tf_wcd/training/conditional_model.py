"""RBMs whose biases follow a condition that comes with each row of the data."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.images import as_rows
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import State
from tf_wcd.programs import call_compiled_stack
from tf_wcd.random import batch_source
from tf_wcd.sampling.samplers import by_gibbs
from tf_wcd.sampling.starts import start_of_chains
from tf_wcd.tables import array_of
from tf_wcd.training.conditions import condition_gradient, conditioned, with_another_seed
from tf_wcd.training.contrastive import ContrastiveModel, regularised
from tf_wcd.training.gradient import Gradient
from tf_wcd.training.inputs import DataSpec, Input
from tf_wcd.training.inputs.conditions import check_condition, condition_tensor, pair_of
from tf_wcd.training.step import Phases


class ConditionalModel(ContrastiveModel):
    """One RBM, with conditions where ``conditions`` says so: then data are pairs ``[x, condition]``.

    `free_energy`, `energy` and `reconstruct` take such pairs, too, with one condition for all rows if wished. All else
    that there is of an RBM (evaluation, export, annealing) there is of `given`.
    """

    def data_spec(self) -> DataSpec:
        spec = super().data_spec()
        if not self.conditions:
            return spec
        return dataclasses.replace(spec, conditions=self.conditions, condition_names=self.condition_names_in_)

    # Variables

    def build(self, input_shape: Any) -> None:
        """Makes the variables, for data of the shape ``[batch, visible units]``, labels and conditions not counted."""
        if self.conditions and isinstance(input_shape[0], list | tuple):
            input_shape = input_shape[0]
        super().build(input_shape)
        if not self.conditions:
            return
        self.input_spec = None  # the parts of a pair are checked where they are used
        like_kernel = with_another_seed(self.kernel_initializer)
        for side, columns, initializer in (("visible", self.num_visible, "zeros"), ("hidden", self.units, like_kernel)):
            name, shape = f"{side}_condition_kernel", (self.conditions, columns)
            setattr(self, name, self._add(name, shape, initializer, self.condition_regularizer))
        if self.centered:
            self.condition_offset = self._add("condition_offset", (self.conditions,), "zeros", trainable=False)

    def machine(self) -> Machine:
        """The RBM at its present parameters, as a value to compute with."""
        if self.conditions:
            raise ValueError(
                "The distribution of a conditional RBM depends on its condition. Take the RBM under one condition, "
                f"`rbm.given(condition)`. Received: a layer with conditions={self.conditions}"
            )
        return super().machine()

    def shifts(self, condition: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What conditions ``[rows, conditions]`` add to the visible and to the hidden bias of each row."""
        machine = self.plain_machine()
        kernels = self.visible_condition_kernel, self.hidden_condition_kernel
        visible, hidden = (machine.product(condition, tf.convert_to_tensor(kernel)) for kernel in kernels)
        return visible, hidden

    def given(self, condition: Any) -> Self:
        """The RBM under one condition: a layer without conditions, a copy that is not compiled.

        Its biases are those of this layer at the condition. All that takes an RBM takes it: `tf_wcd.evaluation`,
        `export`, `distribution`, `sample` by any method.

        Args:
            condition: ``[conditions]``, or one row.

        Example:

        >>> rbm = tf_wcd.RBMLayer(3, conditions=2, negative_phase="cd", seed=0)
        >>> rbm.build((None, 4))
        >>> tf_wcd.evaluation.log_prob(rbm.given([0, 1]), [[0, 1, 1, 0]]).shape
        (1,)
        """
        self._require_conditions(condition)
        self.require_built()
        rows = self._checked_condition(condition, 1)
        name = f"{self.name}_given"
        rbm = type(self).from_config(
            {**self.get_config(), "conditions": None, "condition_regularizer": None, "name": name}
        )
        rbm.build((None, self.num_visible))
        own = {variable.name: variable for variable in self.weights}
        for variable in rbm.weights:
            if tuple(variable.shape) == tuple(own[variable.name].shape):
                variable.assign(own[variable.name])
        visible, hidden = self.shifts(tf.constant(rows))
        rbm.visible_bias.assign_add(visible[0])
        rbm.hidden_bias.assign_add(hidden[0])
        rbm.feature_names_in_ = self.feature_names_in_
        return rbm

    # The update

    def machine_of_rows(self, rows: tf.Tensor) -> tuple[Machine, tf.Tensor]:
        if not self.conditions:
            return super().machine_of_rows(rows)
        visible, condition = rows[:, : self.num_visible], rows[:, self.num_visible :]
        return conditioned(self.plain_machine(), *self.shifts(condition)), visible

    def machine_of_update(self, update: Phases) -> Machine:
        if update.condition is None:
            return super().machine_of_update(update)
        return conditioned(self.plain_machine(), *self.shifts(update.condition))

    def update(
        self, rows: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor, training: bool = False
    ) -> Phases:
        phases = super().update(rows, sample_weight, state, key, training)
        if not self.conditions:
            return phases
        return phases._replace(condition=tf.cast(rows[:, self.num_visible :], self.variable_dtype))

    def gradient(self, update: Phases) -> Gradient:
        gradient = super().gradient(update)
        if update.condition is None:
            return gradient
        offset = tf.convert_to_tensor(self.condition_offset) if self.centered else None
        return condition_gradient(gradient, update, self.offsets(), offset)

    def gradient_pairs(self, gradient: Gradient) -> list[tuple[tf.Tensor, keras.Variable]]:
        pairs, own = super().gradient_pairs(gradient), gradient.conditions
        if own is None:
            return pairs
        return [
            *pairs,
            (regularised(own.visible, self.visible_condition_kernel), self.visible_condition_kernel),
            (regularised(own.hidden, self.hidden_condition_kernel), self.hidden_condition_kernel),
        ]

    def follow_data(self, gradient: Gradient) -> None:
        super().follow_data(gradient)
        if gradient.conditions is not None and gradient.conditions.data_mean is not None:
            change = gradient.conditions.data_mean - self.condition_offset
            self.condition_offset.assign_add(self.centering_rate * change)

    def remember_data(self, data: Input) -> None:
        super().remember_data(data)
        if self.conditions and self.data_means is not None:
            self.data_means = self.data_means[: self.num_visible]
            if data.condition_names is not None:
                self.condition_names_in_ = np.array(data.condition_names, object)

    # Functions of states

    def machine_of_states(self, x: Any) -> tuple[Machine, tf.Tensor]:
        if not self.conditions:
            return super().machine_of_states(x)
        x, condition = self.arrays_of(x)
        x = self.visible_tensor(x)
        condition = condition_tensor(condition, self.conditions, self.variable_dtype, one_for_all=True)
        if condition.shape[0] not in (1, None, x.shape[0]):
            raise ValueError(
                f"`condition` must have one row, or one for each of the {x.shape[0]} rows of x. "
                f"Received: shape {condition.shape}"
            )
        return conditioned(self.plain_machine(), *self.shifts(condition)), x

    def start_at_means(self, x: Any) -> None:
        matrix = 2 if self.visible_shape is None else len(self.visible_shape) + 1
        if self.conditions and isinstance(x, list | tuple) and len(x) == 2 and np.ndim(x[0]) in (2, matrix):
            x = x[0]  # a pair, as `fit` takes it
        super().start_at_means(x)

    def hidden_mean_given(self, inputs: Any) -> tf.Tensor:
        """E[h | x, condition] of a pair of tensors ``[x, condition]``, where back-propagation may go through."""
        x, condition = (tf.cast(part, self.compute_dtype) for part in pair_of(inputs, self.conditions))
        x = as_rows(x, self.visible_shape)
        condition = condition_tensor(condition, self.conditions, self.compute_dtype)
        if x.shape[-1] != self.num_visible:
            raise ValueError(
                f"`x` must have {self.num_visible} columns, one for each visible unit. Received: shape {x.shape}"
            )
        field = tf.matmul(x, self.kernel) + self.hidden_bias + tf.matmul(condition, self.hidden_condition_kernel)
        return self.plain_machine().hidden.mean(field)

    def sample_given(
        self, condition: Any, num_samples: Any, gibbs_steps: Any, initial: Any, clamp: Any, seed: Any, method: str
    ) -> tf.Tensor:
        """The part of `RBMLayer.sample` for a condition of each sample."""
        self._require_conditions(condition)
        if method != "gibbs":
            raise ValueError(
                "A layer with conditions samples by plain chains; for other methods take the RBM under one condition, "
                f"`rbm.given(condition)`. Received: method={method!r}"
            )
        rows = self._checked_condition(condition, check_integer("num_samples", num_samples))
        machine, key = self.plain_machine(), self.sampling_key(seed)
        start = start_of_chains(machine, num_samples, gibbs_steps, initial, clamp, batch_source(key))
        shifts = self.shifts(tf.constant(rows))
        return call_compiled_stack(_given, [self], [machine], *start, key, *shifts, jit_compile=None)

    # What users pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As of every Keras layer; frames and sparse matrices are data, too."""
        if self.conditions and args:
            args = (self.arrays_of(args[0]), *args[1:])
        return super().__call__(*args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`, of data of every kind that `fit` takes."""
        if self.conditions and isinstance(x, tf.data.Dataset):
            spec = self.data_spec()
            x = x.map(lambda *data: (tuple(spec.unpack(data[0] if len(data) == 1 else data)[:2]),))
        return super().predict(x, *args, **kwargs)

    def arrays_of(self, x: Any) -> Any:
        if not self.conditions:
            return super().arrays_of(x)
        names = self.feature_names_in_, self.condition_names_in_
        parts = zip(pair_of(x, self.conditions), ("x", "condition"), names, strict=True)
        return [
            part if tf.is_tensor(part) or isinstance(part, keras.KerasTensor) else array_of(part, what, names=own)
            for part, what, own in parts
        ]

    def _checked_condition(self, condition: Any, rows: int) -> np.ndarray:
        names = self.condition_names_in_
        return check_condition(condition, self.conditions, self.variable_dtype, rows, names=names, one_for_all=True)

    def _require_conditions(self, condition: Any) -> None:
        if not self.conditions:
            raise ValueError(
                "The layer has no conditions: make it with `RBMLayer(..., conditions=...)`. "
                f"Received: condition of type {type(condition).__name__}"
            )


def _given(
    machines: list[Machine],
    visible: tf.Tensor,
    held: tf.Tensor | None,
    steps: tf.Tensor,
    key: tf.Tensor,
    visible_shift: tf.Tensor,
    hidden_shift: tf.Tensor,
) -> tf.Tensor:
    """`by_gibbs` with biases of its own in each row."""
    return by_gibbs(conditioned(machines[0], visible_shift, hidden_shift), visible, held, steps, key)
