"""RBMLayer: a Restricted Boltzmann Machine as a Keras model that is also a layer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer, is_integer
from tf_wcd.data_checks import check_start
from tf_wcd.images import as_images, as_rows, shape_of_rows
from tf_wcd.negative_phases import composition
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, key_of
from tf_wcd.sampling.annealing import check_temperatures
from tf_wcd.sampling.samplers import by_exchange, by_gibbs
from tf_wcd.sampling.starts import start_of_chains
from tf_wcd.tables import array_of
from tf_wcd.training.conditional_model import ConditionalModel
from tf_wcd.training.inputs.labels import one_hot_for_all

SAMPLERS: dict[str, Callable[..., tf.Tensor]] = {"gibbs": by_gibbs, "pt": by_exchange}


@keras.saving.register_keras_serializable(package="tf_wcd")
class RBMLayer(ConditionalModel):
    """A Restricted Boltzmann Machine.

    As a model it trains itself on unlabelled data with `fit`. As a layer it maps visible units to the expected hidden
    units, ``E[h | x]``, and stacks in `keras.Sequential` or a functional model, where back-propagation fine-tunes it.

    Energy(x, h) = -b.x - c.h - x W h for binary units, with ``kernel`` W, ``visible_bias`` b and ``hidden_bias`` c.

    Args:
        units: number of hidden units.
        visible_type: ``"bernoulli"`` (0/1), ``"spin"`` (-1/+1), ``"gaussian"`` (real), ``"relu"`` (at least 0),
            ``"drelu"`` (real, with a learned shape), or a `tf_wcd.units.Unit`.
        hidden_type: as ``visible_type``. With real units on both sides large weights leave no finite normaliser:
            training stops before they get there, with an error that says so.
        negative_phase: ``"cd"``, ``"wcd"``, ``"bcd"``, ``"pcd"``, ``"wpcd"``, ``"jpcd"``, ``"pt"``, ``"wpt"``,
            ``"ptt"``, ``"exact"``, or a `tf_wcd.NegativePhase` object.
        gibbs_steps: k of CD_k and its kin, 1 if not given. A negative phase that is an object has it already.
        chains: number of persistent chains; if not given, as many as there are examples in the first batch. A negative
            phase that is an object has it already.
        centered: use the centred gradient. Its offsets start in the middle of the units' range (1/2 for 0/1 units) and
            then follow the means of the data.
        centering_rate: rate at which the offsets follow; 0 leaves them in the middle, with which 0/1 units learn as
            spins do.
        kernel_initializer: initializer of the kernel; a normal distribution of standard deviation 0.01 if not given.
        visible_bias_initializer: initializer of the visible bias.
        hidden_bias_initializer: initializer of the hidden bias.
        kernel_regularizer: penalty on the kernel, of `keras.regularizers` or `tf_wcd.regularizers`. It acts on every
            update of `fit`, and in networks that are trained by back-propagation, where proximal ones act as gradients.
        visible_bias_regularizer: penalty on the visible bias.
        hidden_bias_regularizer: penalty on the hidden bias.
        standardized: use the standardised gradient: centred, and with units divided by their standard deviations,
            which follow the data at ``centering_rate`` from 1 on. Take a smaller learning rate: a step on 0/1 units is
            up to 16 times as long.
        activity_target: mean activity that hidden units are held at (Hinton 2012), 0.1 say for sparse ones; ``None``
            for none.
        activity_cost: how strongly they are.
        classes: number of labels that are joined to the visible units, as one more unit with so many states: then `fit`
            and `evaluate` take labels ``y``, `label_log_prob` classifies, and `sample` draws data of given classes.
            ``num_visible`` counts the columns of the labels, ``data_width`` does not. See `with_labels` for functions
            of states.
        objective: what a layer with ``classes`` learns: ``"generative"``, the joint distribution of data and labels;
            ``"discriminative"``, the labels given the data, by the exact gradient of log P(y | x) without any negative
            phase; or ``"hybrid"``, both (Larochelle and Bengio 2008).
        generative_weight: weight of the generative gradient in the hybrid one; that of the discriminative one is 1. The
            latter is small: take ten times the learning rate of generative training.
        hidden_dropout: probability of each hidden unit to be dropped at an update of `fit` (Srivastava et al. 2014),
            anew for each example, which then lacks it in both phases; with ``negative_phase="cd"``. Everywhere else the
            model has all of its units, with the parameters that were learned. They are not scaled: the scaling of the
            paper is for networks that are read in one direction. `DBN.fit` drops nothing.
        missing: ``"nan"`` for data in which NaN stands for an unknown entry (of a unit of several columns, in all of
            them). `fit` then follows the gradient of log P(known entries of a row): its positive phase averages over
            the unknown units, given the known ones. With at most 2^10 states on one side (ten binary units) the average
            is exact. In larger models one draw stands for it, from a chain of Gibbs sampling with the known units held,
            which starts with the unknown ones in the middle of their range: it is biased towards that start as far as
            the chain has not forgotten it. Labels may be unknown, too. Nothing is said of *why* an entry is unknown:
            that must not depend on its value. ``None`` refuses NaN.
        missing_steps: Gibbs steps of these chains at each update.
        conditions: number of columns of a condition that comes with each row of the data, and moves its biases (Taylor
            and Hinton 2009): the visible bias is b + u A, the hidden one c + u B, for a condition u. The kernel A,
            ``visible_condition_kernel``, starts at zero, B, ``hidden_condition_kernel``, as the kernel does. The layer
            learns P(x | condition): pass ``fit([x, condition])``, and ``[x, condition]`` to the layer itself, `predict`
            and functions of states; `sample` takes a ``condition``, and `given` is the RBM under one. With
            ``negative_phase="cd"`` or ``"exact"``: other points would mix conditions.
        condition_regularizer: penalty on both kernels of the condition.
        visible_shape: shape of an example that is no row, ``(28, 28)`` for images say. Every method that takes data
            then takes ``[n, 28, 28]`` as well as rows of 784 columns; `sample` gives images, `reconstruct` and `impute`
            what they were given, and pictures of the model have that shape. Places mean nothing to an RBM: its
            parameters, `distribution`, and the signatures of `export` are those of rows.
        seed: seed of the initial kernel, the order of the data and all sampling. The same seed gives the same results.

    Input shape:
        ``[batch, visible units]``, without labels; or ``[batch, *visible_shape]``.

    Output shape:
        ``[batch, units]``: E[h | x].

    Example:

    >>> states, probabilities = tf_wcd.datasets.load("BS09")
    >>> rbm = RBMLayer(18, visible_type="spin", hidden_type="spin", seed=0)
    >>> rbm.compile(keras.optimizers.SGD(0.01, momentum=0.9))
    >>> history = rbm.fit(2 * states - 1, sample_weight=probabilities, batch_size=14, steps_per_epoch=100, verbose=0)
    >>> rbm.sample(5, gibbs_steps=10, seed=1).shape
    TensorShape([5, 9])

    With labels:

    >>> digits = RBMLayer(18, classes=2, objective="hybrid", seed=0)
    >>> digits.compile(keras.optimizers.SGD(0.1))
    >>> history = digits.fit(states, states[:, 4], batch_size=14, steps_per_epoch=100, verbose=0)
    >>> np.argmax(digits.label_log_prob(states), axis=1).shape
    (14,)
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """E[h | x]; labels are summed over."""
        if not self.conditions:
            inputs = self.rows_of_inputs(inputs)
        if self.classes:
            mean = self.hidden_mean_of_data(inputs)
        elif self.conditions:
            mean = self.hidden_mean_given(inputs)
        else:
            field = tf.matmul(tf.cast(inputs, self.compute_dtype), self.kernel) + self.hidden_bias
            mean = self.machine().hidden.mean(field)
        # Back-propagation asks for gradients of all variables: those of the visible side are zero here, not missing.
        others = [self.visible_bias, *self.visible_parameters.values()]
        others += [self.visible_condition_kernel] if self.conditions else []
        return mean + tf.cast(sum(0.0 * tf.reduce_sum(tf.convert_to_tensor(v)) for v in others), mean.dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """``[batch, units]``."""
        pair = self.conditions and isinstance(input_shape[0], list | tuple)
        return (*shape_of_rows(input_shape[0] if pair else input_shape, self.visible_shape)[:-1], self.units)

    def sample(
        self,
        num_samples: int,
        gibbs_steps: int = 1000,
        initial: Any = None,
        clamp: Any = None,
        seed: int | None = None,
        method: str = "gibbs",
        temperatures: Any = 10,
        labels: Any = None,
        condition: Any = None,
    ) -> tf.Tensor:
        """Visible states from chains of Gibbs sampling.

        `tf_wcd.evaluation.mixing` says whether so many steps are enough. Where plain chains stay in a mode, those that
        swap states with chains at other temperatures may leave it.

        Args:
            num_samples: number of chains; the last state of each is returned.
            gibbs_steps: steps of each chain, 0 or more. The chains have the model's distribution in the limit of many.
            initial: visible states that the chains start from, ``[num_samples, visible units]`` or one row for all;
                random states if not given. Images, or one, are taken as well, as of the next argument.
            clamp: ``[visible units]`` or ``[num_samples, visible units]``, true where a unit is held at its value in
                ``initial`` while the others are drawn given it.
            seed: an integer for reproducible samples; if not given, each call draws new ones.
            method: ``"gibbs"``; ``"pt"`` for replica exchange (parallel tempering), where each step is one of Gibbs
                sampling at every temperature, followed by exchanges between neighbours; or ``"ptt"`` for exchange with
                the moments of its own training that a model has which was trained with ``negative_phase="ptt"``. Its
                chains are samples of the model already: a hundred steps make them new ones.
            temperatures: of ``"pt"``: their number, or the inverse temperatures, increasing from 0 to 1.
            labels: class of each sample, of a layer with ``classes``: one number for all, ``[num_samples]`` numbers, or
                one-hot rows. They are held fixed. Without them labels are drawn with all other units.
            condition: condition of each sample, of a layer with ``conditions``: ``[conditions]`` numbers for all, or
                one row for each. Such layers sample by ``"gibbs"`` alone; `given` makes one that has all methods.

        Returns:
            ``[num_samples, visible units]``, without the columns of the labels; with a ``visible_shape``
            ``[num_samples, *visible_shape]``.
        """
        if initial is not None:
            initial = check_start(initial, self.visible_shape, self.checked_data)
        clamp = None if clamp is None else as_rows(array_of(clamp, "clamp"), self.visible_shape, one=True)
        if labels is not None:
            self.require_classes(f"labels of type {type(labels).__name__}")
            rows = check_integer("num_samples", num_samples)
            labels = one_hot_for_all(labels, self.classes, rows, self.variable_dtype)
        if condition is not None or self.conditions:
            drawn = self.sample_given(condition, num_samples, gibbs_steps, initial, clamp, seed, method)
            return self._as_data(drawn)
        if method == "ptt":
            if labels is not None:
                raise ValueError("The method 'ptt' has chains of its own: it takes no `labels`.")
            return self._as_data(self._samples_of_phase(num_samples, gibbs_steps, initial, clamp, seed))
        if method not in SAMPLERS:
            raise ValueError(f"`method` must be one of {[*SAMPLERS, 'ptt']}. Received: method={method!r}")
        if initial is None and method == "gibbs":
            self._warn_of_short_chains(gibbs_steps)
        key = self.sampling_key(seed)
        start = start_of_chains(
            self.machine(), num_samples, gibbs_steps, initial, clamp, batch_source(key), self.classes, labels
        )
        betas = check_temperatures(temperatures) if method == "pt" else None
        more = [] if betas is None else [self._base_bias(), tf.constant(betas, start.visible.dtype)]
        return self._as_data(call_compiled(SAMPLERS[method], self, *start, key, *more, jit_compile=None))

    def _as_data(self, visible: tf.Tensor) -> tf.Tensor:
        """The visible units as users have them: without labels, and in the shape of the data."""
        return as_images(visible[..., : self.data_width] if self.classes else visible, self.visible_shape)

    def _samples_of_phase(self, rows: Any, steps: Any, initial: Any, clamp: Any, seed: int | None) -> tf.Tensor:
        """Samples from the chains of the negative phase, where it has some that go on by themselves."""
        rows, steps = check_integer("num_samples", rows), check_integer("gibbs_steps", steps, least=0)
        if initial is not None or clamp is not None:
            raise ValueError("The method 'ptt' has chains of its own: it takes no `initial`, and no `clamp`.")
        state = {name: tf.constant(value) for name, value in self.chain_states().items()}
        key, source = self.sampling_key(seed), self.negative_phase.source
        samples = source.samples(self.machine(), state, rows, tf.constant(steps), key) if state else None
        if samples is None:
            raise ValueError(
                "The method 'ptt' needs a model that was trained with negative_phase='ptt'. "
                f"Received: {type(self.negative_phase).__name__}" + ("" if state else ", before its first `fit`")
            )
        return samples

    def _base_bias(self) -> tf.Tensor:
        """Visible bias of independent units to exchange states with, ``[visible units]``."""
        if self.data_means is None:
            return tf.zeros_like(tf.convert_to_tensor(self.visible_bias))
        return self.machine().visible.bias_of_means(self.data_means[None].astype(self.variable_dtype))[0]

    def remember_mixing(self, mixing: Any) -> None:
        """Keeps what `tf_wcd.evaluation.mixing` has found, for `sample` to warn once where its chains are too short."""
        self._untracked.mixing = mixing, [variable.numpy() for variable in self.trained_variables]
        self._untracked.warned_of_mixing = False

    def known_mixing(self) -> Any:
        """What `tf_wcd.evaluation.mixing` has found for the present parameters; ``None`` if nothing is known."""
        known, parameters = self._untracked.mixing or (None, [])
        same = (np.array_equal(v.numpy(), p) for v, p in zip(self.trained_variables, parameters, strict=False))
        return known if known is not None and all(same) else None

    def _warn_of_short_chains(self, gibbs_steps: Any) -> None:
        if self._untracked.mixing is None or self._untracked.warned_of_mixing or not is_integer(gibbs_steps):
            return
        known = self.known_mixing()
        if known is not None and known.too_few(int(gibbs_steps)):
            warnings.warn(
                f"Chains of {gibbs_steps} Gibbs steps do not give samples of this model. {known.reason}", stacklevel=3
            )
            self._untracked.warned_of_mixing = True

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
        | `conditional`, with labels | `label` int64, `seed` | `visible`, `probability` |
        | `classify`, with labels | `visible` | `log_prob`, `label` |

        Every input and output has one row for each request, and a row's answer depends on that row alone: with the same
        seed it is the same, bit for bit, in any batch and on any replica. `probability` is that of the upper state; of
        units without two states it is the mean.

        Of a layer with ``classes``, inputs and answers are data without labels. `conditional` draws data of a class, by
        chains as those of `sample` in which the label is held, and `classify` gives log P(label | data) and the most
        probable label. Elsewhere labels are drawn with the other units (`gibbs` and `clamp` start from a random one),
        `encode` sums over them, and `free_energy` and `log_prob` are missing.

        Args:
            filepath: folder to write; it must not exist, or be empty.
            format: `"tf_saved_model"` as described here; Keras' other formats hold the layer's call alone.
            **kwargs: ``gibbs_steps`` (1000), the steps of `sample`'s chains; ``start``, where these chains start: means
                ``[visible units]`` to draw the units with, or states ``[n, visible units]``, one of which is picked by
                each seed (if not given: exact samples of a model of up to 2^16 visible states; 500 samples
                by ``method="ptt"`` of a larger one that was trained with ``negative_phase="ptt"``; and else the means
                of the last `fit`'s data); ``max_steps`` (10000), the most steps that a request may ask for;
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
        from tf_wcd.distribution.rbm import RBMDistribution  # TensorFlow Probability takes seconds to import

        with tf.init_scope():
            machine = self.machine()
        return RBMDistribution(machine, log_partition=log_partition, gibbs_steps=gibbs_steps, **kwargs)

    def start_chains(self, x: Any) -> None:
        """Starts the persistent chains from the given visible states, one chain each.

        Args:
            x: ``[chains, visible units]``; data, say, with labels where the layer has some (`with_labels`).
        """
        x = self.checked_visible(x)
        if self.phase_variables.built:
            have = self.phase_variables.shapes().get("visible", (len(x), 0))[-2]
            if have != len(x):
                raise ValueError(f"The layer has {have} chains already. Received: {len(x)} states")
        else:
            wished = getattr(self.negative_phase.source, "chains", None)
            if wished is not None and wished != len(x):
                raise ValueError(f"The layer was made for {wished} chains. Received: {len(x)} states")
        key = key_of(self.seed_generator.next())
        with self.distribute_strategy.scope():
            state = composition.start(self.negative_phase, self.machine(), key, visible=tf.convert_to_tensor(x))
        self.phase_variables.start(state)
