"""RBMs that learn: the update as the difference of two phases, and the state of the negative phase."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import regularizers, replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import State
from tf_wcd.negative_phases.collapse import collapse_warning
from tf_wcd.negative_phases.composition import start
from tf_wcd.normaliser import check_normaliser
from tf_wcd.random import key_of
from tf_wcd.regularizers import Proximal
from tf_wcd.training.dropout import with_dropout
from tf_wcd.training.gradient import Gradient, Offsets
from tf_wcd.training.imputation import ImputingModel
from tf_wcd.training.inputs import Input
from tf_wcd.training.missing import complete, known_measures, summed_out
from tf_wcd.training.objectives import hybrid, label_gradient, label_measures, phases_without_points
from tf_wcd.training.sparsity import running_activity, towards_target
from tf_wcd.training.step import Phases, gradient_of, measures_of, phases_of

_CHAINS = 0xC4A1  # the purpose of the key of the first chains: with or without them, updates draw the same numbers


class ContrastiveModel(ImputingModel):
    """One RBM, or several along leading axes, whose step is the difference of a positive and a negative phase."""

    # The update

    @property
    def has_negative_phase(self) -> bool:
        """Whether the objective needs one."""
        return self.objective != "discriminative"

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [metric for metric in super().metrics if self.has_negative_phase or metric.name != "ess"]

    def validate(self) -> None:
        check_normaliser(self.plain_machine())
        several = self.distribute_strategy.num_replicas_in_sync > 1
        if several and any(isinstance(v.regularizer, Proximal) for v in self.trained_variables):
            raise ValueError("Proximal regularizers work on one replica. Received: a strategy of several")
        self.negative_phase.validate(self.plain_machine())

    def update(
        self, rows: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor, training: bool = False
    ) -> Phases:
        machine, visible = self.machine_of_rows(tf.cast(rows, self.variable_dtype))
        if training and self.hidden_dropout:
            machine = with_dropout(machine, visible, self.hidden_dropout, key)
        if self.missing:
            visible, unknown = complete(machine, visible, self.missing_steps, key)
            phases = phases_of(machine, self.negative_phase, visible, sample_weight, state, key)
            return phases._replace(unknown=unknown)
        if not self.has_negative_phase:
            return phases_without_points(machine, visible, sample_weight, state)
        return phases_of(machine, self.negative_phase, visible, sample_weight, state, key)

    def machine_of_rows(self, rows: tf.Tensor) -> tuple[Machine, tf.Tensor]:
        """The RBM that rows of training data are learned by, and what the visible units have of the rows."""
        return self.plain_machine(), rows

    def measures(self, update: Phases) -> dict[str, Any]:
        measures: dict[str, Any] = measures_of(update)
        if update.unknown is not None:
            measures |= known_measures(update, measures["loss"])
        if self.classes:
            measures |= label_measures(update, self.objective, self.generative_weight, measures["loss"])
        return measures | (self.negative_phase.metrics(update.state) if self.has_negative_phase else {})

    @property
    def loss_is_objective(self) -> bool:
        return not self.has_negative_phase

    def doubts(self, batch_size: int) -> list[str]:
        source, shapes = self.negative_phase.source, self.phase_variables.shapes()
        present = source.num_points(self.plain_machine(), batch_size, shapes)
        wished = source.num_points(self.plain_machine(), batch_size, {})
        if not shapes or present is None or wished is None or 2 * present > wished:
            return []
        return [
            f"The negative phase has {present} points, as many as the first batch had examples, and keeps "
            f"them; batches of {batch_size} examples would get {wished}. Gradients have the noise of so "
            "few: give the number, as `chains=100`, or make the model anew."
        ]

    def collapse_warning(self, ess: float, batch_size: int) -> str | None:
        phase, shapes = self.negative_phase, self.phase_variables.shapes()
        return collapse_warning(phase, ess, phase.source.num_points(self.plain_machine(), batch_size, shapes))

    def gradient(self, update: Phases) -> Gradient:
        """The gradient of the objective, to be followed downhill."""
        offsets = self.offsets()
        if self.objective == "generative":
            gradient = gradient_of(update, offsets)
            return gradient if update.unknown is None else summed_out(gradient, update, offsets)
        of_labels = label_gradient(update, offsets)
        if not self.has_negative_phase:
            return of_labels
        return hybrid(of_labels, gradient_of(update, offsets), self.generative_weight)

    def apply_update(self, update: Phases) -> None:
        gradient = self.gradient(update)
        if self.activity_target is not None:
            # Of all units, whether dropped or not.
            whole = update._replace(machine=self.machine_of_update(update))
            activity = running_activity(whole, tf.convert_to_tensor(self.hidden_activity))
            gradient = towards_target(gradient, update, activity, self.activity_target, self.activity_cost)
            self.hidden_activity.assign(activity)
        pairs = [(g, v) for g, v in self.gradient_pairs(gradient) if v.trainable]
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        gradients = replicas.whole_gradients(self.optimizer, [g for g, _ in pairs])
        # Keras' optimizers undo the scaling that mixed precision asks for.
        self.optimizer.apply_gradients(
            [(self.optimizer.scale_loss(g), v) for g, (_, v) in zip(gradients, pairs, strict=True)]
        )
        for variable in self.trained_variables:
            if isinstance(variable.regularizer, Proximal):
                variable.assign(
                    variable.regularizer.proximal(tf.convert_to_tensor(variable), self.rates(rate, variable))
                )
        self.correct(update)
        self.follow_data(gradient)
        self.assign_phase_state(update.state)

    def machine_of_update(self, update: Phases) -> Machine:
        """The RBM of an update with all of its units."""
        return self.plain_machine()

    def correct(self, update: Phases) -> None:
        """Lets the negative phase put other parameters in the place of those that the optimizer has set."""
        if replicas.count() > 1 or not self.has_negative_phase:
            return  # several replicas would each assign to variables that all share
        machine = self.negative_phase.source.corrected(update.machine, self.plain_machine(), update.state)
        if machine is not None:
            for variable, value in (
                (self.kernel, machine.kernel),
                (self.visible_bias, machine.visible_bias),
                (self.hidden_bias, machine.hidden_bias),
                *((variable, machine.visible.parameters[name]) for name, variable in self.visible_parameters.items()),
                *((variable, machine.hidden.parameters[name]) for name, variable in self.hidden_parameters.items()),
            ):
                variable.assign(value)

    def rates(self, rate: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        """The learning rate of a variable, of a shape that goes with it."""
        return tf.cast(rate, variable.dtype)

    def gradient_pairs(self, gradient: Gradient) -> list[tuple[tf.Tensor, keras.Variable]]:
        """Each part of the gradient, that of its regularizer included, with its variable."""
        return [
            (regularised(gradient.kernel, self.kernel), self.kernel),
            (regularised(gradient.visible_bias, self.visible_bias), self.visible_bias),
            (regularised(gradient.hidden_bias, self.hidden_bias), self.hidden_bias),
            *((gradient.visible_unit[name], variable) for name, variable in self.visible_parameters.items()),
            *((gradient.hidden_unit[name], variable) for name, variable in self.hidden_parameters.items()),
        ]

    def offsets(self) -> Offsets | None:
        """The offsets of the centred gradient; ``None`` for the plain one."""
        if not self.centered:
            return None
        variances = (self.visible_variance, self.hidden_variance) if self.standardized else ()
        return Offsets(self.visible_offset, self.hidden_offset, *variances)

    def follow_data(self, gradient: Gradient) -> None:
        """Lets the offsets of the centred gradient follow the data's means, and the scales their variances."""
        offsets = self.offsets()
        if offsets is not None and gradient.data_means is not None:
            for offset, mean in zip(offsets, gradient.data_means, strict=True):
                if offset is not None:
                    offset.assign_add(self.centering_rate * (mean - offset))

    def flops_of_update(self, batch_size: int) -> float:
        source = self.negative_phase.source
        steps = getattr(source, "gibbs_steps", 1) * getattr(source, "copies", 1)
        points = source.num_points(self.plain_machine(), batch_size, self.phase_variables.shapes()) or batch_size
        size = self.num_visible * self.units * int(np.prod(self.members, dtype=int))
        return 2.0 * size * (batch_size + 2 * (1 + steps) * points)

    def remember_data(self, data: Input) -> None:
        self.data_means = data.means()
        self.remember_names(data)

    def remember_names(self, data: Input) -> None:
        """Keeps the names of the columns of a frame."""
        if data.names is not None:
            self.feature_names_in_ = np.array(data.names, object)

    # State of the negative phase

    @property
    def chain_variables(self) -> dict[str, keras.Variable]:
        """State of the negative phase: ``visible`` and ``hidden`` of persistent chains. Empty before training.

        Under `tf.distribute` each replica has variables for its part of the chains; `chain_states` has all.
        """
        return dict(self.phase_variables.by_name)

    def chain_states(self) -> dict[str, np.ndarray]:
        """Values of `chain_variables`, of all replicas together; all workers must ask for them together."""
        return self.phase_variables.values()

    def has_phase_state(self) -> bool:
        return bool(self.phase_variables.built)

    def phase_state(self) -> State:
        return {name: tf.convert_to_tensor(v) for name, v in self.phase_variables.by_name.items()}

    def assign_phase_state(self, state: State) -> None:
        """Keeps the state that an update has left: in a replica, its part."""
        for name, variable in self.phase_variables.by_name.items():
            variable.assign(state[name])

    def build_training(self, batch_size: int) -> None:
        if not self.phase_variables.built:
            self.phase_variables.start(self._first_state(batch_size))
        if self.has_negative_phase:
            self.add_phase_measures(self.negative_phase.metrics(self.phase_state()))

    def evaluation_state(self, batch_size: int) -> State:
        if self.phase_variables.built:
            return self.phase_state()
        return {name: replicas.own_rows(value) for name, value in self._first_state(batch_size).items()}

    def _first_state(self, batch_size: int) -> State:
        """The state before the first update, all rows counted."""
        if not self.has_negative_phase:
            return {}
        key = key_of(self.seed_generator.state, purpose=_CHAINS)
        # By default each replica has as many chains as examples; the last one may have fewer of these.
        replicas_in_sync = self.distribute_strategy.num_replicas_in_sync
        rows = -(-batch_size // replicas_in_sync) * replicas_in_sync
        return start(self.negative_phase, self.plain_machine(), key, rows)

    # Saving

    def get_build_config(self) -> dict[str, Any]:
        if not self.built:
            return {}
        shapes = {name: list(shape) for name, shape in self.phase_variables.shapes().items()}
        return {"input_shape": [None, self.data_width], "phase_shapes": shapes if self.phase_variables.built else None}

    def build_from_config(self, config: dict[str, Any]) -> None:
        if not config:
            return
        self.build(tuple(config["input_shape"]))
        if config.get("phase_shapes") is not None:
            self.phase_variables.build({name: tuple(shape) for name, shape in config["phase_shapes"].items()})


def regularised(gradient: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
    """The gradient with that of the variable's regularizer; each replica has its share of it."""
    own = regularizers.gradient(variable.regularizer, tf.convert_to_tensor(variable))
    return gradient if own is None else gradient + tf.cast(own, gradient.dtype) / replicas.count()
