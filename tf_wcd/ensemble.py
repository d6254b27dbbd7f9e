"""Many independent RBMs trained side by side in one vectorised run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import is_integer
from tf_wcd.images import shape_of_rows
from tf_wcd.layer import RBMLayer
from tf_wcd.negative_phases import State
from tf_wcd.random import key_of_members
from tf_wcd.shapes import static_shape
from tf_wcd.training.contrastive import ContrastiveModel
from tf_wcd.training.gradient import Gradient
from tf_wcd.training.inputs.base import Blocks
from tf_wcd.training.loop import run_updates
from tf_wcd.training.parts import Parts, spans
from tf_wcd.training.sharing import signature
from tf_wcd.training.step import Phases


@keras.saving.register_keras_serializable(package="tf_wcd")
class RBMEnsemble(ContrastiveModel):
    """Independent RBMs of one size that see the same batches, each with its own start, noise and learning rate.

    A grid over learning rates, initial variances and seeds is one run: one compilation, one progress bar, and one
    evaluation of all members.

    It trains as an `RBMLayer` does. Every parameter has a leading axis for the members. Metrics are their means.
    `member` gives one of them as an `RBMLayer`. `ExactKL`, and `log_partition`, `log_prob` and `kl_divergence` of
    `tf_wcd.evaluation`, evaluate all at once.

    Args:
        units: number of hidden units of each member.
        count: number of members; if not given, the length of ``learning_rates`` or ``initial_stddev``.
        learning_rates: factor of each member's gradient, ``[count]``. With SGD (with or without momentum, without
            clipping) of learning rate 1 it *is* the member's learning rate; a schedule given to SGD multiplies it.
        initial_stddev: standard deviation of each member's initial kernel, a number or ``[count]``.
        **kwargs: as for `RBMLayer`, but that there is no ``kernel_initializer``.

    Example:

    >>> states, probabilities = tf_wcd.datasets.load("BS09")
    >>> ensemble = RBMEnsemble(18, learning_rates=[0.1, 0.01, 0.001], seed=0)
    >>> ensemble.compile(keras.optimizers.SGD(1.0, momentum=0.9))
    >>> history = ensemble.fit(states, batch_size=14, steps_per_epoch=100, verbose=0)
    >>> tf_wcd.evaluation.kl_divergence(ensemble, states, probabilities).shape
    (3,)
    >>> rbm = ensemble.member(1)
    """

    def __init__(
        self,
        units: int,
        count: int | None = None,
        learning_rates: Sequence[float] | None = None,
        initial_stddev: float | Sequence[float] = 0.01,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if "kernel_initializer" in kwargs:
            raise ValueError(
                "The kernels of an ensemble are normal: use `initial_stddev`. Received: kernel_initializer"
            )
        if kwargs.get("conditions"):
            raise ValueError(
                "An ensemble has no conditions: train an `RBMLayer` for each member. "
                f"Received: conditions={kwargs['conditions']!r}"
            )
        lengths = {len(value) for value in (learning_rates, initial_stddev) if isinstance(value, Sequence | np.ndarray)}
        count = max(lengths, default=1) if count is None else count
        if not is_integer(count) or count < 1 or lengths - {count}:
            raise ValueError(
                "`count`, and the lengths of `learning_rates` and `initial_stddev`, must agree and be at least 1. "
                f"Received: count={count!r}, lengths {sorted(lengths)}"
            )
        self.count = int(count)
        spread = np.broadcast_to(np.asarray(initial_stddev, "float64"), [count])
        super().__init__(units, seed=seed, kernel_initializer=MemberNormal(spread.tolist(), seed), **kwargs)
        self.initial_stddev = spread.tolist()
        self.learning_rates = None if learning_rates is None else [float(rate) for rate in learning_rates]

    @property
    def members(self) -> tuple[int, ...]:
        return (self.count,)

    def update(
        self, rows: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor, training: bool = False
    ) -> Phases:
        rows = tf.broadcast_to(rows, [self.count, *static_shape(rows)])
        if sample_weight is not None:
            sample_weight = tf.broadcast_to(sample_weight, [self.count, *static_shape(sample_weight)])
        if self._part is not None:
            key = key_of_members(key, tf.convert_to_tensor(self._part.first))
        return super().update(rows, sample_weight, state, key, training)

    def _compiled_updates(self, blocks: Blocks, updates_per_epoch: int | None, batch_size: int) -> Any:
        """As of every model; where members may be computed in parts, each on a core of its own."""
        run = super()._compiled_updates(blocks, updates_per_epoch, batch_size)
        with_xla = self.jit_compile if self._untracked.with_xla is None else self._untracked.with_xla
        apart = self.negative_phase.members_apart and not self.hidden_dropout
        if not (with_xla and apart) or self.run_eagerly or self._part is not None or signature(self) is None:
            return run
        where = spans(self.count)
        if len(where) == 1:
            return run
        parts = [self._part_of(first, count, batch_size) for first, count in where]
        return Parts(self, parts, [part.updates_of_part(blocks) for part in parts])

    def _part_of(self, first: int, count: int, batch_size: int) -> RBMEnsemble:
        """Some of the members as an ensemble that draws their random numbers; its values are not set."""
        span = slice(first, first + count)
        rates = self.learning_rates
        config = {
            **self.get_config(),
            "count": count,
            "initial_stddev": self.initial_stddev[span],
            "learning_rates": None if rates is None else [1.0] * count,
        }
        part = RBMEnsemble.from_config(config)
        part._untracked.part = PartOfEnsemble(
            tf.Variable(first, dtype=tf.uint32, trainable=False),
            tf.Variable([1.0] * count if rates is None else rates[span], dtype=tf.float64, trainable=False),
        )
        part.build((None, self.data_width))
        for mine, theirs in zip(part._parameters(), self._parameters(), strict=True):
            mine.trainable = theirs.trainable
        optimizer = type(self.optimizer).from_config(self.optimizer.get_config())
        part.compile(optimizer, jit_compile=True)
        if self.phase_variables.built:
            shapes = self.phase_variables.shapes()
            part.phase_variables.build({name: (count, *shape[1:]) for name, shape in shapes.items()})
        part.prepare(batch_size)
        return part

    def updates_of_part(self, blocks: Blocks) -> Any:
        """The updates of a part of an ensemble as a compiled function."""
        update = functools.partial(run_updates, self, blocks.fetch)
        variables = (*blocks.variables, *self._untracked.part)
        return self._untracked.programs.bound(self, ("part", blocks.kind), update, variables, True)

    @property
    def _part(self) -> PartOfEnsemble | None:
        return self._untracked.part

    def _own_rates(self, dtype: str) -> tf.Tensor:
        """The members' learning rates: of a part, those of a variable, so that all parts run one program."""
        if self._part is not None:
            return tf.cast(self._part.rates, dtype)
        return tf.constant(self.learning_rates, dtype)

    def rates(self, rate: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        rate = super().rates(rate, variable)
        if self.learning_rates is None:
            return rate
        own = self._own_rates(variable.dtype)
        return rate * tf.reshape(own, [-1] + [1] * (len(variable.shape) - 1))

    def gradient_pairs(self, gradient: Gradient) -> list[tuple[tf.Tensor, keras.Variable]]:
        pairs = super().gradient_pairs(gradient)
        if self.learning_rates is None:
            return pairs
        rates = self._own_rates(gradient.kernel.dtype)
        return [(g * tf.reshape(rates, [-1] + [1] * (g.shape.rank - 1)), variable) for g, variable in pairs]

    def member(self, index: int) -> RBMLayer:
        """A copy of one member as an `RBMLayer`, with its parameters and chains; it is not compiled.

        Several workers must ask for it together, because the chains are gathered.
        """
        if not -self.count <= index < self.count:
            raise ValueError(f"`index` must be between {-self.count} and {self.count - 1}. Received: index={index}")
        self.require_built()
        config = {name: value for name, value in self.get_config().items() if name not in MEMBERS_ONLY}
        rbm = RBMLayer.from_config({**config, "name": f"{self.name}_{index % self.count}"})
        rbm.build((None, self.data_width))
        for mine, theirs in zip(rbm.weights, self._parameters(), strict=True):
            mine.assign(theirs[index] if tuple(mine.shape) == tuple(theirs.shape[1:]) else theirs)
        if self.phase_variables.built:
            rbm.phase_variables.start({name: value[index] for name, value in self.chain_states().items()})
        rbm.data_means, rbm.feature_names_in_ = self.data_means, self.feature_names_in_
        return rbm

    def export(self, filepath: Any, format: str = "tf_saved_model", **kwargs: Any) -> None:  # noqa: A002 - Keras' name
        """Refuses: one model is served at a time."""
        if format != "tf_saved_model":
            return super().export(filepath, format=format, **kwargs)
        raise ValueError(
            "Members of an ensemble are exported one by one: `ensemble.member(i).export(path)`. "
            f"Received: an ensemble of {self.count} members"
        )

    def _parameters(self) -> list[keras.Variable]:
        """All weights but the chains, which replicas may have divided among themselves."""
        chains = {id(variable) for variable in self.chain_variables.values()}
        return [variable for variable in self.weights if id(variable) not in chains]

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """E[h | x] of every member, ``[count, batch, units]``; labels are summed over."""
        inputs = self.rows_of_inputs(inputs)
        if self.classes:
            return self.hidden_mean_of_data(inputs)
        fields = tf.matmul(tf.cast(inputs, self.compute_dtype), self.kernel) + tf.expand_dims(self.hidden_bias, 1)
        return self.machine().hidden.mean(fields)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`: E[h | x] of every member, ``[count, examples, units]``."""
        return np.moveaxis(super().predict(x, *args, **kwargs), 1, 0)

    def predict_on_batch(self, x: Any) -> Any:
        """As `keras.Model.predict_on_batch`, ``[count, batch, units]``."""
        return np.moveaxis(super().predict_on_batch(x), 1, 0)

    def predict_step(self, data: Any) -> tf.Tensor:
        """The prediction for a batch, ``[batch, count, units]``: Keras joins batches along the first axis."""
        return tf.transpose(super().predict_step(data), [1, 0, 2])

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """``[count, batch, units]``."""
        return (self.count, *shape_of_rows(input_shape, self.visible_shape)[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["kernel_initializer"]
        return {**config, **{name: getattr(self, name) for name in MEMBERS_ONLY}}


class PartOfEnsemble(NamedTuple):
    """What the members of a part have of their own, beside the variables that they learn.

    Attributes:
        first: number of the first one in the whole ensemble.
        rates: their learning rates.
    """

    first: tf.Variable
    rates: tf.Variable


MEMBERS_ONLY = ("count", "learning_rates", "initial_stddev")


class MemberNormal(keras.initializers.Initializer):
    """Normal kernels, with one standard deviation for each member."""

    def __init__(self, stddev: Sequence[float], seed: int | None) -> None:
        self.stddev, self.seed = stddev, seed

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        normal = keras.initializers.RandomNormal(stddev=1.0, seed=self.seed)
        return normal(shape, dtype) * tf.reshape(tf.cast(self.stddev, dtype), [-1, 1, 1])
