"""RBMs as Keras models: variables with any leading axes, energies, and what is saved."""

from __future__ import annotations

import json
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import negative_phases, replicas
from tf_wcd.arguments import check_integer, check_seed
from tf_wcd.images import check_visible_shape, shape_of_rows
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.normaliser import check_sides, flaw
from tf_wcd.tables import array_of
from tf_wcd.training.conditions import check_conditions
from tf_wcd.training.dropout import check_dropout
from tf_wcd.training.missing import check_missing
from tf_wcd.training.objectives import check_objective
from tf_wcd.training.phase_variables import PhaseVariables
from tf_wcd.training.sparsity import check_activity
from tf_wcd.training.states import StatesModel
from tf_wcd.units import Unit
from tf_wcd.units import get as get_unit
from tf_wcd.units import serialize as serialize_unit
from tf_wcd.units.labelled import with_labels

REGULARIZERS = ("kernel_regularizer", "visible_bias_regularizer", "hidden_bias_regularizer", "condition_regularizer")
SEED_GENERATORS = ("seed_generator", "sampling_seed_generator")
NAMES = ("feature_names_in", "condition_names_in")


class MachineModel(StatesModel):
    """One RBM, or several along leading axes: `RBMLayer` describes the arguments."""

    data_means: np.ndarray | None = None  # of the visible units in the last `fit`; with data sets, of the first batch
    condition_names_in_: np.ndarray | None = None  # of the conditions' columns, where these were a frame

    def __init__(
        self,
        units: int,
        visible_type: str | Unit = "bernoulli",
        hidden_type: str | Unit = "bernoulli",
        negative_phase: str | NegativePhase = "wcd",
        gibbs_steps: int | None = None,
        chains: int | None = None,
        centered: bool = False,
        centering_rate: float = 0.01,
        kernel_initializer: Any = None,
        visible_bias_initializer: Any = "zeros",
        hidden_bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        visible_bias_regularizer: Any = None,
        hidden_bias_regularizer: Any = None,
        standardized: bool = False,
        activity_target: float | None = None,
        activity_cost: float = 0.01,
        classes: int | None = None,
        objective: str = "generative",
        generative_weight: float = 0.01,
        hidden_dropout: float = 0.0,
        missing: str | None = None,
        missing_steps: int = 10,
        conditions: int | None = None,
        condition_regularizer: Any = None,
        visible_shape: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= centering_rate <= 1:
            raise ValueError(f"`centering_rate` must be in [0, 1]. Received: centering_rate={centering_rate!r}")
        self.units, self.visible_shape = check_integer("units", units), check_visible_shape(visible_shape)
        self.visible_unit, self.hidden_unit = get_unit(visible_type), get_unit(hidden_type)
        self.classes = 0 if classes is None else check_integer("classes", classes, least=2)
        if self.classes:
            self.visible_unit = with_labels(self.visible_unit, self.classes)
            self._measures.append(keras.metrics.Mean(name="accuracy"))
        self.objective, self.generative_weight = check_objective(objective, generative_weight, self.classes)
        self.hidden_unit.check_columns(self.units)
        self.negative_phase = negative_phases.get(negative_phase, gibbs_steps=gibbs_steps, chains=chains)
        self.hidden_dropout = check_dropout(
            hidden_dropout, self.hidden_unit, self.units, self.negative_phase, self.objective
        )
        self.missing, self.missing_steps = check_missing(missing, missing_steps, self.objective, self.hidden_dropout)
        self.conditions = check_conditions(conditions, self.classes, self.missing, self.negative_phase)
        self.standardized = bool(standardized)
        self.centered = bool(centered) or self.standardized
        self.centering_rate = float(centering_rate)
        self.activity_target, self.activity_cost = check_activity(activity_target, activity_cost, self.hidden_unit)
        self.seed = seed = check_seed(seed)
        self.seed_generator = replicas.SeedGenerator(seed)
        self.sampling_seed_generator = replicas.SeedGenerator(None if seed is None else seed ^ 0x5A3B)
        if kernel_initializer is None:
            kernel_initializer = keras.initializers.RandomNormal(stddev=0.01, seed=seed)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.visible_bias_initializer = keras.initializers.get(visible_bias_initializer)
        self.hidden_bias_initializer = keras.initializers.get(hidden_bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.visible_bias_regularizer = keras.regularizers.get(visible_bias_regularizer)
        self.hidden_bias_regularizer = keras.regularizers.get(hidden_bias_regularizer)
        self.condition_regularizer = keras.regularizers.get(condition_regularizer)
        self.phase_variables = PhaseVariables(name="negative_phase", dtype=self.dtype_policy)

    # Variables

    def build(self, input_shape: Any) -> None:
        """Makes the variables, for data of the shape ``[batch, visible units]``, labels not counted."""
        input_shape = shape_of_rows(input_shape, self.visible_shape)
        width = input_shape[-1]
        if len(input_shape) != 2 or not width:
            raise ValueError(
                f"The input of an RBM must have the shape [batch, visible units]. Received: {tuple(input_shape)}"
            )
        n_v, n_h = int(width) + self.classes, self.units
        self.visible_unit.check_columns(n_v)
        check_sides(self.visible_unit, n_v, self.hidden_unit, n_h)
        self.num_visible = n_v
        self.kernel = self._add("kernel", (n_v, n_h), self.kernel_initializer, self.kernel_regularizer)
        self.visible_bias = self._add(
            "visible_bias", (n_v,), self.visible_bias_initializer, self.visible_bias_regularizer
        )
        self.hidden_bias = self._add("hidden_bias", (n_h,), self.hidden_bias_initializer, self.hidden_bias_regularizer)
        self.visible_parameters = self._add_all("visible", self.visible_unit.initial_parameters(n_v))
        self.hidden_parameters = self._add_all("hidden", self.hidden_unit.initial_parameters(n_h))
        if self.centered:
            middle = self.visible_unit.midpoints(n_v), self.hidden_unit.midpoints(n_h)
            self.visible_offset = self._add("visible_offset", (n_v,), _values(middle[0]), trainable=False)
            self.hidden_offset = self._add("hidden_offset", (n_h,), _values(middle[1]), trainable=False)
        if self.standardized:
            ones = np.ones([n_v]), np.ones([n_h])
            self.visible_variance = self._add("visible_variance", (n_v,), _values(ones[0]), trainable=False)
            self.hidden_variance = self._add("hidden_variance", (n_h,), _values(ones[1]), trainable=False)
        if self.activity_target is not None:
            target = _values(np.full([n_h], self.activity_target))
            self.hidden_activity = self._add("hidden_activity", (n_h,), target, trainable=False)
        if self.visible_shape is None:
            self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: int(width)})
        self.built = True

    def _add(
        self, name: str, shape: tuple[int, ...], initializer: Any, regularizer: Any = None, trainable: bool = True
    ) -> keras.Variable:
        with self.distribute_strategy.scope():
            return self.add_weight(
                shape=self.members + shape,
                initializer=initializer,
                regularizer=regularizer,
                name=name,
                trainable=trainable,
                aggregation="none" if trainable else "only_first_replica",  # all replicas assign the same
            )

    def _add_all(self, side: str, parameters: dict[str, np.ndarray]) -> dict[str, keras.Variable]:
        return {name: self._add(f"{side}_{name}", v.shape, _values(v)) for name, v in parameters.items()}

    def machine(self) -> Machine:
        """The RBM at its present parameters, as a value to compute with."""
        return self.plain_machine()

    def plain_machine(self) -> Machine:
        """`machine`, without what conditions do to its biases."""
        self.require_built()

        def tensors(variables: dict[str, keras.Variable]) -> dict[str, tf.Tensor]:
            return {name: tf.convert_to_tensor(variable) for name, variable in variables.items()}

        mixed = self.compute_dtype != self.variable_dtype
        return Machine(
            visible=self.visible_unit.bind(tensors(self.visible_parameters)),
            hidden=self.hidden_unit.bind(tensors(self.hidden_parameters)),
            kernel=tf.convert_to_tensor(self.kernel),
            visible_bias=tf.convert_to_tensor(self.visible_bias),
            hidden_bias=tf.convert_to_tensor(self.hidden_bias),
            product_dtype=self.compute_dtype if mixed else None,
        )

    def require_built(self) -> None:
        """Raises ValueError if the number of visible units is not known yet."""
        if not self.built:
            raise ValueError(
                "The layer does not know its number of visible units yet: "
                "fit it, call it, or use `build((None, visible units))`."
            )

    @property
    def largest_parameter(self) -> float:
        """Size beyond which a parameter means that training has diverged.

        Of units with states of order one: where the numbers next to it are more than a nat away, so that rounding alone
        decides on energies. Real units may need any size, with their data or their variances.
        """
        if all(math.isfinite(bound) for u in (self.visible_unit, self.hidden_unit) for bound in u.data_range):
            return 1.0 / float(np.finfo(self.variable_dtype).eps)
        return super().largest_parameter

    def flaw(self) -> str:
        return flaw(self.plain_machine())

    # Energies

    def free_energy(self, x: Any) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)), ``[n]`` for x ``[n, visible units]``."""
        machine, x = self.machine_of_states(x)
        return machine.free_energy(x)

    def energy(self, x: Any, h: Any) -> tf.Tensor:
        """Energy of each pair of visible and hidden states.

        Args:
            x: ``[n, visible units]``.
            h: ``[n, hidden units]``.

        Returns:
            ``[n]``.
        """
        machine, x = self.machine_of_states(x)
        h = tf.cast(h if tf.is_tensor(h) else array_of(h, "h"), self.variable_dtype)
        if h.shape.rank != 2 or h.shape[-1] != self.units:
            raise ValueError(f"`h` must have the shape [n, {self.units}]. Received: shape {h.shape}")
        return machine.energy(x, h)

    def reconstruct(self, x: Any) -> tf.Tensor:
        """E[x | E[h | x]], ``[n, visible units]`` for x of the same shape."""
        machine, rows = self.machine_of_states(x)
        return self.shaped_as(x, machine.reconstruct(machine.hidden_field(rows)))

    def machine_of_states(self, x: Any) -> tuple[Machine, tf.Tensor]:
        """The RBM, and the visible states that a user passed."""
        x = self.visible_tensor(x)  # builds the layer
        return self.machine(), x

    # Saving

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "visible_type": serialize_unit(self.data_unit),
            "hidden_type": serialize_unit(self.hidden_unit),
            "negative_phase": keras.saving.serialize_keras_object(self.negative_phase),
            "centered": self.centered,
            "centering_rate": self.centering_rate,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "visible_bias_initializer": keras.initializers.serialize(self.visible_bias_initializer),
            "hidden_bias_initializer": keras.initializers.serialize(self.hidden_bias_initializer),
            **{name: keras.regularizers.serialize(getattr(self, name)) for name in REGULARIZERS if getattr(self, name)},
            "standardized": self.standardized,
            "activity_target": self.activity_target,
            "activity_cost": self.activity_cost,
            "classes": self.classes or None,
            "objective": self.objective,
            "generative_weight": self.generative_weight,
            "hidden_dropout": self.hidden_dropout,
            "missing": self.missing,
            "missing_steps": self.missing_steps,
            "conditions": self.conditions or None,
            "visible_shape": None if self.visible_shape is None else list(self.visible_shape),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        for name in ("visible_type", "hidden_type", "negative_phase"):
            if isinstance(config[name], dict):
                config[name] = keras.saving.deserialize_keras_object(config[name], custom_objects=custom_objects)
        if isinstance(config["negative_phase"], NegativePhase):
            # Files of version 0.1 repeat the arguments that the phase was made with.
            config = {name: value for name, value in config.items() if name not in ("gibbs_steps", "chains")}
        return cls(**config)

    # Keras does not save the counters of seed generators; a run that goes on after a reload needs them.

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        for name in SEED_GENERATORS:
            store[name] = getattr(self, name).state.numpy()
        if self.data_means is not None:
            store["data_means"] = self.data_means
        for name in NAMES:
            if (names := getattr(self, f"{name}_")) is not None:
                store[name] = np.frombuffer(json.dumps(list(names)).encode(), "uint8")

    def load_own_variables(self, store: Any) -> None:
        known = {name: store[name] for name in store.keys()}  # noqa: SIM118 - it cannot be iterated
        for name in SEED_GENERATORS:
            getattr(self, name).state.assign(np.asarray(known.pop(name)))
        if "data_means" in known:
            self.data_means = np.asarray(known.pop("data_means"))
        for name in known.keys() & set(NAMES):
            names = json.loads(np.asarray(known.pop(name)).tobytes().decode())
            setattr(self, f"{name}_", np.array(names, object))
        super().load_own_variables(known)


def _values(values: np.ndarray) -> Any:
    """An initializer that gives these values, along any leading axes."""
    return lambda shape, dtype=None: tf.broadcast_to(tf.cast(values, dtype or "float32"), shape)
