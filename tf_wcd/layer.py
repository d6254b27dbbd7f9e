"""RBMLayer: a Restricted Boltzmann Machine as a Keras model that is also a layer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import data_checks, negative_phases, replicas
from tf_wcd.arguments import check_integer, check_seed, check_variable_dtype
from tf_wcd.fitting import FittingModel
from tf_wcd.gradient import Gradient, Offsets
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase, State
from tf_wcd.phase_variables import PhaseVariables
from tf_wcd.random_bits import key_of
from tf_wcd.sampling import run_chains, start_of_chains
from tf_wcd.units import Unit
from tf_wcd.units import get as get_unit
from tf_wcd.units import serialize as serialize_unit
from tf_wcd.units.base import bias_of_means
from tf_wcd.xla import compiled

SEED_GENERATORS = ("seed_generator", "sampling_seed_generator")


@keras.saving.register_keras_serializable(package="tf_wcd")
class RBMLayer(FittingModel):
    """A Restricted Boltzmann Machine.

    As a model it trains itself on unlabelled data with `fit`. As a layer it maps visible units to the expected hidden
    units, ``E[h | x]``, and stacks in `keras.Sequential` or a functional model, where back-propagation fine-tunes it.

    Energy(x, h) = -b.x - c.h - x W h for binary units, with ``kernel`` W, ``visible_bias`` b and ``hidden_bias`` c.

    Args:
        units: number of hidden units.
        visible_type: ``"bernoulli"`` (0/1), ``"spin"`` (-1/+1), ``"gaussian"`` (real), or a `tf_wcd.units.Unit`.
        hidden_type: ``"bernoulli"``, ``"spin"``, or a `tf_wcd.units.Unit` with two states.
        negative_phase: ``"cd"``, ``"wcd"``, ``"pcd"``, ``"wpcd"``, ``"exact"``, or a `tf_wcd.NegativePhase` object.
        gibbs_steps: k of CD_k and its kin. Ignored where ``negative_phase`` is an object.
        chains: number of persistent chains; ``None`` for as many as there are examples in the first batch.
        centered: use the centred gradient. Its offsets start in the middle of the units' range (1/2 for 0/1 units) and
            then follow the means of the data.
        centering_rate: rate at which the offsets follow; 0 leaves them in the middle, with which 0/1 units learn as
            spins do.
        kernel_initializer: initializer of the kernel; a normal distribution of standard deviation 0.01 if not given.
        visible_bias_initializer: initializer of the visible bias.
        hidden_bias_initializer: initializer of the hidden bias.
        seed: seed of the initial kernel, the order of the data and all sampling. The same seed gives the same results.

    Input shape:
        ``[batch, visible units]``.

    Output shape:
        ``[batch, units]``: E[h | x].

    Example:

    >>> states, probabilities = tf_wcd.datasets.load("BS09")
    >>> rbm = RBMLayer(18, visible_type="spin", hidden_type="spin", seed=0)
    >>> rbm.compile(keras.optimizers.SGD(0.01, momentum=0.9))
    >>> history = rbm.fit(2 * states - 1, sample_weight=probabilities, batch_size=14, steps_per_epoch=100, verbose=0)
    >>> rbm.sample(5, gibbs_steps=10, seed=1).shape
    TensorShape([5, 9])
    """

    members_shape: tuple[int, ...] = ()  # leading axes of every parameter (`RBMEnsemble`)

    def __init__(
        self,
        units: int,
        visible_type: str | Unit = "bernoulli",
        hidden_type: str | Unit = "bernoulli",
        negative_phase: str | NegativePhase = "wcd",
        gibbs_steps: int = 1,
        chains: int | None = None,
        centered: bool = False,
        centering_rate: float = 0.01,
        kernel_initializer: Any = None,
        visible_bias_initializer: Any = "zeros",
        hidden_bias_initializer: Any = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_variable_dtype(self.dtype_policy)
        if not 0 <= centering_rate <= 1:
            raise ValueError(f"`centering_rate` must be in [0, 1]. Received: centering_rate={centering_rate!r}")
        self.units = check_integer("units", units)
        self.visible_unit = get_unit(visible_type)
        self.hidden_unit = get_unit(hidden_type)
        if self.hidden_unit.values is None:
            raise ValueError(
                f"Hidden units must have two states: 'bernoulli' or 'spin'. Received: hidden_type={hidden_type!r}"
            )
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.chains = None if chains is None else check_integer("chains", chains)
        self.negative_phase = negative_phases.get(negative_phase, gibbs_steps=gibbs_steps, chains=chains)
        self.centered = bool(centered)
        self.centering_rate = float(centering_rate)
        self.seed = seed = check_seed(seed)
        self.seed_generator = replicas.SeedGenerator(seed)
        self.sampling_seed_generator = replicas.SeedGenerator(None if seed is None else seed ^ 0x5A3B)
        if kernel_initializer is None:
            kernel_initializer = keras.initializers.RandomNormal(stddev=0.01, seed=seed)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.visible_bias_initializer = keras.initializers.get(visible_bias_initializer)
        self.hidden_bias_initializer = keras.initializers.get(hidden_bias_initializer)
        self.phase_variables = PhaseVariables(name="negative_phase", dtype=self.dtype_policy)

    # Variables

    def build(self, input_shape: Any) -> None:
        """Makes the variables, for inputs of the shape ``[batch, visible units]``."""
        width = input_shape[-1]
        if len(input_shape) != 2 or not width:
            raise ValueError(
                f"The input of an RBM must have the shape [batch, visible units]. Received: {tuple(input_shape)}"
            )
        n_v, n_h = int(width), self.units
        self.num_visible = n_v
        self.kernel = self._add("kernel", (n_v, n_h), self.kernel_initializer)
        self.visible_bias = self._add("visible_bias", (n_v,), self.visible_bias_initializer)
        self.hidden_bias = self._add("hidden_bias", (n_h,), self.hidden_bias_initializer)
        self.visible_parameters = {
            name: self._add(f"visible_{name}", (n_v,), keras.initializers.Constant(value))
            for name, value in self.visible_unit.parameter_initial_values().items()
        }
        if self.centered:
            middle = keras.initializers.Constant
            self.visible_offset = self._add(
                "visible_offset", (n_v,), middle(self.visible_unit.midpoint), trainable=False
            )
            self.hidden_offset = self._add("hidden_offset", (n_h,), middle(self.hidden_unit.midpoint), trainable=False)
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: n_v})
        self.built = True

    def _add(self, name: str, shape: tuple[int, ...], initializer: Any, trainable: bool = True) -> keras.Variable:
        with self.distribute_strategy.scope():
            return self.add_weight(
                shape=self.members_shape + shape,
                initializer=initializer,
                name=name,
                trainable=trainable,
                aggregation="none" if trainable else "only_first_replica",  # all replicas assign the same
            )

    def machine(self) -> Machine:
        """The RBM at its present parameters, as a value to compute with."""
        self._require_built()
        mixed = self.compute_dtype != self.variable_dtype
        return Machine(
            visible=self.visible_unit.bind(
                {name: tf.convert_to_tensor(v) for name, v in self.visible_parameters.items()}
            ),
            hidden=self.hidden_unit,
            kernel=tf.convert_to_tensor(self.kernel),
            visible_bias=tf.convert_to_tensor(self.visible_bias),
            hidden_bias=tf.convert_to_tensor(self.hidden_bias),
            product_dtype=self.compute_dtype if mixed else None,
        )

    def gradient_pairs(self, gradient: Gradient) -> list[tuple[tf.Tensor, keras.Variable]]:
        """Each part of the gradient with its variable."""
        return [
            (gradient.kernel, self.kernel),
            (gradient.visible_bias, self.visible_bias),
            (gradient.hidden_bias, self.hidden_bias),
            *((gradient.visible_unit[name], variable) for name, variable in self.visible_parameters.items()),
        ]

    def move_offsets(self, gradient: Gradient) -> None:
        """Lets the offsets of the centred gradient follow the data."""
        if gradient.data_means is not None:
            for offset, mean in (
                (self.visible_offset, gradient.data_means.visible),
                (self.hidden_offset, gradient.data_means.hidden),
            ):
                offset.assign_add(self.centering_rate * (mean - offset))

    def descend(self, gradient: Gradient) -> None:
        """Hands the gradient to the optimizer, and lets the offsets of the centred gradient follow the data."""
        # Keras' optimizers undo the scaling that mixed precision asks for.
        pairs = [(g, v) for g, v in self.gradient_pairs(gradient) if v.trainable]
        gradients = replicas.whole_gradients(self.optimizer, [g for g, _ in pairs])
        self.optimizer.apply_gradients(
            [(self.optimizer.scale_loss(g), v) for g, (_, v) in zip(gradients, pairs, strict=True)]
        )
        self.move_offsets(gradient)

    def centering_offsets(self) -> Offsets | None:
        """The offsets of the centred gradient; ``None`` for the plain one."""
        return Offsets(self.visible_offset, self.hidden_offset) if self.centered else None

    # State of the negative phase

    @property
    def chain_variables(self) -> dict[str, keras.Variable]:
        """State of the negative phase: ``visible`` and ``hidden`` of persistent chains. Empty before training.

        Under `tf.distribute` each replica has variables of its own for its part of the chains; `chain_states` has all.
        """
        return dict(self.phase_variables.by_name)

    def chain_states(self) -> dict[str, np.ndarray]:
        """Values of `chain_variables`, of all replicas together; all workers must ask for them together."""
        return self.phase_variables.values()

    def phase_state(self) -> State:
        """The state of the negative phase as tensors."""
        return {name: tf.convert_to_tensor(v) for name, v in self.phase_variables.by_name.items()}

    def assign_phase_state(self, state: State) -> None:
        """Keeps the state that an update has left: in a replica, its own part."""
        for name, variable in self.phase_variables.by_name.items():
            variable.assign(state[name])

    def build_phase_state(self, batch_size: int) -> None:
        """Makes the state of the negative phase the first time that it is needed."""
        if not self.phase_variables.built:
            self.phase_variables.start(self._first_state(batch_size))

    def evaluation_state(self, batch_size: int) -> State:
        """The state of the negative phase to measure with; before training, one of its own that is not kept."""
        if self.phase_variables.built:
            return self.phase_state()
        return {name: replicas.own_rows(value) for name, value in self._first_state(batch_size).items()}

    def _first_state(self, batch_size: int) -> State:
        """The state before the first update, all rows counted."""
        # A key of its own: whether there is state or not, the first update draws the same numbers.
        key = key_of(self.seed_generator.state, purpose=0xC4A1)
        # By default each replica has as many chains as examples; the last one may have fewer of these.
        replicas_in_sync = self.distribute_strategy.num_replicas_in_sync
        rows = -(-batch_size // replicas_in_sync) * replicas_in_sync
        return self.negative_phase.initial_state(self.machine(), rows, key)

    def start_at_means(self, x: Any) -> None:
        """Sets the visible bias to that of units without weights that have the means of the data.

        Call it before the first `fit` where some units are nearly always off, or on, as the pixels of images are
        (Hinton 2012): hidden units that learn to switch them off are lost for anything else.

        Args:
            x: ``[examples, visible units]``; the training data.

        Example:

        >>> rbm = RBMLayer(3, kernel_initializer="zeros")
        >>> rbm.start_at_means([[0, 1], [0, 0], [0, 1], [0, 1]])
        >>> [round(float(mean), 2) for mean in rbm.reconstruct([[0, 0]])[0]]
        [0.01, 0.75]
        """
        x = data_checks.check_visible(
            x, self.visible_unit, self.num_visible if self.built else None, dtype=self.variable_dtype
        )
        if not self.built:
            self.build((None, x.shape[1]))
        means = x.mean(axis=0, keepdims=True, dtype="float64").astype(self.variable_dtype)
        bias = bias_of_means(self.machine().visible, means)[..., 0, :]
        self.visible_bias.assign(tf.broadcast_to(bias, self.visible_bias.shape))

    def start_chains(self, x: Any) -> None:
        """Starts the persistent chains from the given visible states, one chain each.

        Args:
            x: ``[chains, visible units]``; data, say.
        """
        x = data_checks.check_visible(
            x, self.visible_unit, self.num_visible if self.built else None, dtype=self.variable_dtype
        )
        if not self.built:
            self.build((None, x.shape[1]))
        machine = self.machine()
        key = key_of(self.seed_generator.next())
        state = negative_phases.start_chains(machine, tf.convert_to_tensor(x), key)
        if set(self.negative_phase.initial_state(machine, len(x), key)) != set(state):
            raise ValueError(
                "The negative phase has no persistent chains: use 'pcd' or 'wpcd'. "
                f"Received: {type(self.negative_phase).__name__}"
            )
        if self.phase_variables.built:
            have = self.phase_variables.shapes()["visible"][-2]
            if have != len(x):
                raise ValueError(f"The layer has {have} chains already. Received: {len(x)} states")
        else:
            wished = getattr(self.negative_phase, "chains", None)
            if wished is not None and wished != len(x):
                raise ValueError(f"The layer was made for {wished} chains. Received: {len(x)} states")
        self.phase_variables.start(state)

    # The mathematics

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """E[h | x]."""
        field = tf.matmul(inputs, self.kernel) + self.hidden_bias
        return self.hidden_unit.mean(field)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """``[batch, units]``."""
        return (*input_shape[:-1], self.units)

    def energy(self, x: Any, h: Any) -> tf.Tensor:
        """Energy of each pair of visible and hidden states.

        Args:
            x: ``[n, visible units]``.
            h: ``[n, hidden units]``.

        Returns:
            ``[n]``.
        """
        x, h = self._visible(x), tf.cast(tf.convert_to_tensor(h), self.variable_dtype)
        if h.shape.rank != 2 or h.shape[-1] != self.units:
            raise ValueError(f"`h` must have the shape [n, {self.units}]. Received: shape {h.shape}")
        return self.machine().energy(x, h)

    def free_energy(self, x: Any) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)), ``[n]`` for x ``[n, visible units]``."""
        x = self._visible(x)
        return self.machine().free_energy(x)

    def reconstruct(self, x: Any) -> tf.Tensor:
        """E[x | E[h | x]], ``[n, visible units]`` for x of the same shape."""
        x = self._visible(x)
        machine = self.machine()
        return machine.visible.mean(machine.visible_field(machine.hidden.mean(machine.hidden_field(x))))

    def sample(
        self, num_samples: int, gibbs_steps: int = 1000, initial: Any = None, clamp: Any = None, seed: int | None = None
    ) -> tf.Tensor:
        """Visible states from chains of Gibbs sampling.

        Args:
            num_samples: number of chains; the last state of each is returned.
            gibbs_steps: steps of each chain, 0 or more. The chains have the model's distribution in the limit of many.
            initial: visible states that the chains start from, ``[num_samples, visible units]`` or one row for all;
                random states if not given.
            clamp: ``[visible units]`` or ``[num_samples, visible units]``, true where a unit is held at its value in
                ``initial`` while the others are drawn given it.
            seed: an integer for reproducible samples; if not given, each call draws new ones.

        Returns:
            ``[num_samples, visible units]``.
        """
        self._require_built()
        key = self.sampling_key(seed)
        start = start_of_chains(self.machine(), num_samples, gibbs_steps, initial, clamp, key)
        if self._compiled.sample is None:
            self._compiled.sample = compiled(lambda *chains: run_chains(self.machine(), *chains))
        return self._compiled.sample(*start, key)

    def sampling_key(self, seed: int | None) -> tf.Tensor:
        """The key, uint32 [2], of samples or of an estimate: that of the seed, or a new one for ``None``."""
        seed = check_seed(seed)
        return key_of(self.sampling_seed_generator.next() if seed is None else tf.constant([seed, 0], tf.int64))

    def export(self, filepath: Any, format: str = "tf_saved_model", **kwargs: Any) -> None:  # noqa: A002 - Keras' name
        """Writes a SavedModel that TF-Serving serves, with signatures for samples, codes and energies.

        | signature | inputs | outputs |
        |---|---|---|
        | `sample`, also `serving_default` | `seed` int64 | `visible`, `probability` |
        | `gibbs` | `visible`, `seed`, `steps` int32 | `visible`, `probability` |
        | `clamp` | `visible`, `mask` (1 where a unit is held), `seed`, `steps` | `visible`, `probability` |
        | `encode` | `visible` | `hidden` |
        | `free_energy` | `visible` | `free_energy` |
        | `log_prob`, where log Z is exact | `visible` | `log_prob` |

        Every input and output has one row for each request, and a row's answer depends on that row alone: with the same
        seed it is the same, bit for bit, in any batch and on any replica. `probability` is that of the upper state; for
        Gaussian units it is the mean.

        Args:
            filepath: folder to write; it must not exist, or be empty.
            format: `"tf_saved_model"` as described here; Keras' other formats hold the layer's call alone.
            **kwargs: ``gibbs_steps`` (1000), the steps of `sample`'s chains; ``start``, where these chains start: means
                ``[visible units]`` to draw the units with, or states ``[n, visible units]``, one of which is picked by
                each seed (if not given: exact samples of a model of up to 16 binary visible units, and the means of the
                last `fit`'s data for larger ones); ``max_steps`` (10000), the most steps that a request may ask for;
                ``max_rows`` (10000), the most rows in a batch; ``warmup`` (True), whether to include requests that warm
                a server up.
        """
        if format != "tf_saved_model":
            return super().export(filepath, format=format, **kwargs)
        from tf_wcd.export.layer_facts import export_layer

        return export_layer(self, filepath, **kwargs)

    def distribution(self, log_partition: float | None = None, gibbs_steps: int = 1000, **kwargs: Any) -> Any:
        """The model at its present parameters as a `tfp.distributions.Distribution` over the visible units.

        Args:
            log_partition: log Z, if it is known from elsewhere; ``None`` for the exact one.
            gibbs_steps: steps of the chains that samples come from, where the model is too large for exact samples.
            **kwargs: ``validate_args``, ``allow_nan_stats`` and ``name``, as TFP's own distributions have them.

        Returns:
            A `tf_wcd.distribution.RBMDistribution`, which does not change when the layer learns on.
        """
        from tf_wcd.distribution import RBMDistribution  # TensorFlow Probability takes seconds to import

        with tf.init_scope():
            machine = self.machine()
        return RBMDistribution(machine, log_partition=log_partition, gibbs_steps=gibbs_steps, **kwargs)

    def _visible(self, x: Any) -> tf.Tensor:
        x = tf.cast(tf.convert_to_tensor(x), self.variable_dtype)
        if x.shape.rank != 2:
            raise ValueError(f"`x` must have the shape [n, visible units]. Received: shape {x.shape}")
        if not self.built:
            self.build((None, x.shape[-1]))
        if x.shape[-1] != self.num_visible:
            raise ValueError(
                f"`x` must have {self.num_visible} columns, one for each visible unit. Received: shape {x.shape}"
            )
        return x

    def _require_built(self) -> None:
        if not self.built:
            raise ValueError(
                "The layer does not know its number of visible units yet: "
                "fit it, call it, or use `build((None, visible units))`."
            )

    # Saving

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "visible_type": serialize_unit(self.visible_unit),
            "hidden_type": serialize_unit(self.hidden_unit),
            "negative_phase": keras.saving.serialize_keras_object(self.negative_phase),
            "gibbs_steps": self.gibbs_steps,
            "chains": self.chains,
            "centered": self.centered,
            "centering_rate": self.centering_rate,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "visible_bias_initializer": keras.initializers.serialize(self.visible_bias_initializer),
            "hidden_bias_initializer": keras.initializers.serialize(self.hidden_bias_initializer),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> RBMLayer:
        config = dict(config)
        for name in ("visible_type", "hidden_type", "negative_phase"):
            if isinstance(config[name], dict):
                config[name] = keras.saving.deserialize_keras_object(config[name], custom_objects=custom_objects)
        return cls(**config)

    def get_build_config(self) -> dict[str, Any]:
        shapes = {name: list(shape) for name, shape in self.phase_variables.shapes().items()}
        return {"input_shape": [None, self.num_visible], "phase_shapes": shapes if self.phase_variables.built else None}

    def build_from_config(self, config: dict[str, Any]) -> None:
        self.build(tuple(config["input_shape"]))
        if config.get("phase_shapes") is not None:
            self.phase_variables.build({name: tuple(shape) for name, shape in config["phase_shapes"].items()})

    # Keras does not save the counters of seed generators; a run that goes on after a reload needs them.

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        for name in SEED_GENERATORS:
            store[name] = getattr(self, name).state.numpy()
        if self.data_means is not None:
            store["data_means"] = self.data_means
        if self.epochs_of_fit is not None:
            store["epochs_of_fit"] = np.asarray(self.epochs_of_fit)

    def load_own_variables(self, store: Any) -> None:
        own = (*SEED_GENERATORS, "data_means", "epochs_of_fit")
        others = [name for name in store.keys() if name not in own]  # noqa: SIM118 - it cannot be iterated
        super().load_own_variables({name: store[name] for name in others})
        for name in SEED_GENERATORS:
            getattr(self, name).state.assign(np.asarray(store[name]))
        if "data_means" in store.keys():  # noqa: SIM118
            self.data_means = np.asarray(store["data_means"])
        if "epochs_of_fit" in store.keys():  # noqa: SIM118
            self.epochs_of_fit = int(np.asarray(store["epochs_of_fit"]))
