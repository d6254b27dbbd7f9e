"""The up-down algorithm: contrastive wake-sleep for all layers of a DBN together (Hinton, Osindero and Teh 2006).

A step goes up from data with the recognition weights and teaches the generative weights to predict each layer from the
one above it; it trains the top RBM on what arrived there; and it goes down from the top RBM's negative points with the
generative weights and teaches the recognition weights to predict each layer from the one below it.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd import data_checks, xla
from tf_wcd.arguments import check_integer, check_variable_dtype
from tf_wcd.dbn.passes import draw, keyed_uniforms, pass_up
from tf_wcd.dbn.streams import one_hot, one_hot_tensor
from tf_wcd.gradient import phase_difference
from tf_wcd.layer import RBMLayer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import State
from tf_wcd.random_bits import key_of, subkey
from tf_wcd.resume import save_weights_at_once
from tf_wcd.training import CompiledFunctions, MeasuredModel, Phases, normalise_sample_weight
from tf_wcd.units import Unit
from tf_wcd.units.labelled import number_of_labels

# Purposes of random numbers, each with a key of its own.
_WAKE, _TOP, _SLEEP = range(3)

Pairs = list[tuple[tf.Tensor, keras.Variable]]


class UpDownModel(MeasuredModel):
    """A stack of RBMs with generative weights of their own, and the training step of the up-down algorithm.

    Metrics: ``loss``, the mean free energy of what arrives at the top RBM minus that of its negative points (it need
    not fall); ``reconstruction_error``, the mean square of x minus its prediction from the first hidden layer's
    states; ``ess`` of the top RBM's negative phase.
    """

    rbms: list[RBMLayer]
    classes: int
    optimizer: Any = None  # that of `compile`; Keras' callbacks ask for it while the layers are pre-trained, too
    num_visible: int

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_variable_dtype(self.dtype_policy)
        self.generative = GenerativeKernels(name="generative", dtype=self.dtype_policy)
        self._compiled = CompiledFunctions()

    # Generative weights

    @property
    def untied(self) -> bool:
        """Whether the layers have generative weights of their own."""
        return self.generative.built

    def untie(self) -> None:
        """Gives every layer below the top one a generative kernel of its own, equal to that of its RBM for now.

        The RBM's kernel and hidden bias then are the recognition weights; its visible bias, and this kernel, the
        generative ones.
        """
        if not self.untied:
            self.generative.build([tuple(rbm.kernel.shape) for rbm in self.rbms[:-1]])
            for own, rbm in zip(self.generative.kernels, self.rbms[:-1], strict=True):
                own.assign(rbm.kernel)
            self.test_function = self._compiled.sample = None  # what was compiled reads the kernels of the RBMs

    def has_phase_state(self) -> bool:
        return self.rbms[-1].has_phase_state()

    def _generative_kernels(self) -> list[keras.Variable]:
        return self.generative.kernels if self.untied else [rbm.kernel for rbm in self.rbms[:-1]]

    def generative_machines(self) -> list[Machine]:
        """The layers below the top one as they predict the layer below: with the generative weights."""
        machines = []
        for rbm, kernel in zip(self.rbms, self._generative_kernels(), strict=False):
            machine = rbm.machine()
            machines.append(
                Machine(
                    visible=machine.visible,
                    hidden=machine.hidden,
                    kernel=tf.convert_to_tensor(kernel),
                    visible_bias=machine.visible_bias,
                    hidden_bias=machine.hidden_bias,
                    product_dtype=machine.product_dtype,
                )
            )
        return machines

    # Keras' training

    def compile(self, optimizer: Any = "sgd", *, run_eagerly: bool = False, jit_compile: bool | str = "auto") -> None:
        """Configures `fit`, the training of all layers together. (`pretrain` uses the optimizers of the RBMs.)

        Args:
            optimizer: a Keras optimizer, or its name.
            run_eagerly: run step by step in Python, for debugging.
            jit_compile: compile with XLA; ``"auto"`` does so wherever it can.
        """
        jit = xla.BY_DEFAULT and not run_eagerly if jit_compile == "auto" else jit_compile
        super().compile(optimizer=optimizer, run_eagerly=run_eagerly, jit_compile=jit)
        self._compile_arguments = {
            "optimizer": self.optimizer,
            "run_eagerly": run_eagerly,
            "jit_compile": jit_compile,
        }

    def get_compile_config(self) -> dict[str, Any]:
        arguments = getattr(self, "_compile_arguments", {})
        return {name: keras.saving.serialize_keras_object(value) for name, value in arguments.items()}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
        if self.untied:
            self.optimizer.build(self.up_down_variables())

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains all layers together as a generative model, with the up-down algorithm. Pre-train first.

        Arguments are those of `keras.Model.fit`. The first time, every layer gets generative weights of its own
        (`untie`).

        Args:
            x: an array ``[examples, visible units]``, or a `tf.data.Dataset` of batches.
            y: labels of an array, class numbers or one-hot, where the top layer has labels; else nothing.
            batch_size: examples in a batch of an array, 32 if not given.
            sample_weight: weight of each example of an array, rescaled to mean one.
        """
        if not self.compiled:
            raise ValueError("Call `compile(optimizer=...)` before `fit`.")
        self._refuse_replicas()
        arrays, size = self._bring(x, y, batch_size, sample_weight)
        self._prepare(size)
        return super().fit(**arrays, **kwargs)

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Mean of the metrics over data, as `keras.Model.evaluate`. It changes neither the model nor its chains.

        Arguments are those of `fit`. Before `fit` it measures the model that pre-training has left.
        """
        self._refuse_replicas()
        arrays = dict(x=x, y=y, batch_size=batch_size, sample_weight=sample_weight)
        if not kwargs.get("_use_cached_eval_dataset"):  # else `fit` has the batches of its validation data already
            arrays, self.evaluation_rows = self._bring(x, y, batch_size, sample_weight)
            self.rbms[-1].negative_phase.validate(self.rbms[-1].machine())
        return super().evaluate(**arrays, **kwargs)

    def _refuse_replicas(self) -> None:
        count = max(model.distribute_strategy.num_replicas_in_sync for model in (self, *self.rbms))
        if count > 1:
            raise ValueError(
                "The up-down algorithm runs on one replica; `pretrain` and `RBMLayer.fit` train on several. "
                f"Received: a strategy of {count} replicas"
            )

    def _bring(self, x: Any, y: Any, batch_size: int | None, sample_weight: Any) -> tuple[dict[str, Any], int]:
        """The data as Keras takes them, checked, and the number of examples in a batch; builds the model for them."""
        if batch_size is not None:
            check_integer("batch_size", batch_size)
        if isinstance(x, tf.data.Dataset | keras.utils.PyDataset):
            first = next(iter(x.take(1)), None) if isinstance(x, tf.data.Dataset) else x[0]
            if first is None:
                raise ValueError("The data set is empty: at least one batch is needed. Received: 0 batches")
            example, labels, _ = keras.utils.unpack_x_y_sample_weight(first)
            size = int(example.shape[0])
            self._require_labels(labels)
        else:
            x = example = data_checks.check_visible(
                x, self.data_unit, self.num_visible if self.built else None, dtype=self.rbms[0].variable_dtype
            )
            self._require_labels(y)
            y = one_hot(y, self.classes, len(x), self.rbms[0].variable_dtype) if self.classes else None
            if sample_weight is not None:
                weights = data_checks.check_sample_weight(sample_weight, len(x))
                sample_weight = (weights / weights.mean()).astype(self.rbms[0].variable_dtype)
                y = x[:, :1] if y is None else y  # Keras leaves out the weights of what has no targets
            size = batch_size = min(batch_size or 32, len(x))
        if not self.built:
            self.build((None, int(example.shape[-1])))
        return dict(x=x, y=y, batch_size=batch_size, sample_weight=sample_weight), size

    def save_weights(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """As `keras.Model.save_weights`, but that a file that is there already is replaced at once or not at all."""
        save_weights_at_once(self, super().save_weights, filepath, overwrite, **kwargs)

    def _require_labels(self, y: Any) -> None:
        if self.classes and y is None:
            raise ValueError(f"The top layer has {self.classes} labels: pass `y`. Received: no labels")

    def _prepare(self, batch_size: int) -> None:
        """Makes every variable that training needs, before anything is compiled."""
        top = self.rbms[-1]
        top.negative_phase.validate(top.machine())
        top.build_phase_state(batch_size)
        self.untie()
        if not self.optimizer.built:
            self.optimizer.build(self.up_down_variables())

    def up_down_variables(self) -> list[keras.Variable]:
        """What the up-down algorithm trains: recognition and generative weights, and the top RBM."""
        lower = [v for rbm in self.rbms[:-1] for v in (rbm.kernel, rbm.hidden_bias, rbm.visible_bias)]
        return [*lower, *self.generative.kernels, *self.rbms[-1].trainable_variables]

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        measured, pairs, phases = self._up_down(data, key_of(self.rbms[-1].seed_generator.next()))
        top = self.rbms[-1]
        gradient = phase_difference(*phases[:2], *phases[3:5], scale=phases.scale, offsets=top.centering_offsets())
        pairs += top.gradient_pairs(gradient)
        self.optimizer.apply_gradients([(self.optimizer.scale_loss(g), v) for g, v in pairs if v.trainable])
        top.move_offsets(gradient)
        top.assign_phase_state(phases.state)
        return self._record(measured)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        # A key that training never uses, so that an evaluation in between does not change what training does next.
        top = self.rbms[-1]
        state = top.evaluation_state(self.rows_of_evaluation(keras.utils.unpack_x_y_sample_weight(data)[0]))
        measured, _, _ = self._up_down(data, key_of(top.seed_generator.state, purpose=0x5EED), state)
        return self._record(measured)

    def _up_down(
        self, data: Any, key: tf.Tensor, state: State | None = None
    ) -> tuple[tuple[tf.Tensor, ...], Pairs, Phases]:
        """Metrics of one step, the gradients of all weights below the top RBM, and the phases of the top RBM.

        The state is that of the top RBM's negative phase; the one that it keeps if not given.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        top = self.rbms[-1]
        x = tf.cast(x, top.variable_dtype)
        log_weights, scale = normalise_sample_weight(x, sample_weight)
        recognition = [rbm.machine() for rbm in self.rbms[:-1]]
        generative = self.generative_machines()

        # Wake: up with the recognition weights; each layer's states are predicted from those above.
        wake = pass_up(recognition, x, keyed_uniforms(subkey(key, _WAKE)))
        weights = scale * tf.exp(log_weights)
        pairs: Pairs = []
        kernels = self._generative_kernels()
        for number, (machine, rbm) in enumerate(zip(generative, self.rbms, strict=False)):
            mean = machine.visible.mean(machine.visible_field(wake[number + 1]))
            surprise = weights[:, None] * (mean - wake[number])
            pairs += [
                (machine.product(surprise, wake[number + 1], transpose_a=True), kernels[number]),
                (tf.reduce_sum(surprise, axis=0), rbm.visible_bias),
            ]
        joined = wake[-1]
        if self.classes:
            joined = tf.concat([joined, one_hot_tensor(y, self.classes, joined.dtype.name)], axis=1)

        # The top RBM: its own positive and negative phase.
        state = top.phase_state() if state is None else state
        phases = top.phases(joined, sample_weight, state, subkey(key, _TOP))
        measured = top.measure(phases)
        if generative:
            bottom = generative[0]
            errors = tf.square(x - bottom.visible.mean(bottom.visible_field(wake[1])))
            reconstruction = tf.reduce_sum(tf.exp(log_weights) * tf.reduce_mean(errors, axis=-1))
            measured = (measured[0], reconstruction, measured[2])

        # Sleep: down with the generative weights; each layer's states are predicted from those below.
        fantasy = phases.points.visible
        labels = number_of_labels(phases.machine.visible)
        fantasy = fantasy[:, :-labels] if labels else fantasy
        part = 1.0 / tf.cast(tf.shape(fantasy)[0], fantasy.dtype)
        uniforms = keyed_uniforms(subkey(key, _SLEEP))
        for number in reversed(range(len(generative))):
            machine, below = recognition[number], generative[number]
            dreamt = draw(below.visible, below.visible_field(fantasy), uniforms, number)
            surprise = part * scale * (machine.hidden.mean(machine.hidden_field(dreamt)) - fantasy)
            pairs += [
                (machine.product(dreamt, surprise, transpose_a=True), self.rbms[number].kernel),
                (tf.reduce_sum(surprise, axis=0), self.rbms[number].hidden_bias),
            ]
            fantasy = dreamt
        return measured, pairs, phases

    @property
    def data_unit(self) -> Unit:
        raise NotImplementedError(f"{type(self).__name__} must implement `data_unit`.")


@keras.saving.register_keras_serializable(package="tf_wcd")
class GenerativeKernels(keras.layers.Layer):
    """Generative kernels, made when the layers are untied."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernels: list[keras.Variable] = []

    def build(self, shapes: list[tuple[int, ...]]) -> None:
        self.kernels = [
            self.add_weight(shape=shape, initializer="zeros", name=f"kernel_{number}")
            for number, shape in enumerate(shapes)
        ]
        self.built = True
