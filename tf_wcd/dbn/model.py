"""DBN: a stack of RBMs as one generative model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.dbn import networks, pretraining
from tf_wcd.dbn.generation import generate, start_of_top
from tf_wcd.dbn.stack import Stack
from tf_wcd.images import are_images, as_images, as_rows, shape_of_rows
from tf_wcd.programs import call_compiled_stack
from tf_wcd.sampling.passes import label_log_prob, pass_up, reconstruction, top_hidden_mean
from tf_wcd.training.monitors import monitor_doubts

ROWS_AT_A_TIME = 1000


@keras.saving.register_keras_serializable(package="tf_wcd")
class DBN(Stack):
    """A Deep Belief Network: a stack of RBMs, of which the top one stays an RBM and the others point downwards.

    The hidden units of an RBM are the visible units of the next. `pretrain` trains the RBMs one after the other, from
    the bottom. `sample` draws from the model: Gibbs sampling in the top RBM, then one pass down. `classifier` and
    `autoencoder` make ordinary Keras models of it for back-propagation. `fit` trains all layers together as a
    generative model, with the up-down algorithm (contrastive wake-sleep).

    Called on data, it gives the expected hidden units of the top RBM, where each layer hands its expectations to the
    next.

    To join labels to the units that the top RBM sees, make it with ``classes``, or give it
    ``visible_type=tf_wcd.units.Labelled(kind, classes)``. Then `pretrain` takes labels ``y``, `sample` draws data of
    given classes, and `label_log_prob` classifies.

    Args:
        layers: `RBMLayer`s, from the bottom, each compiled with an optimizer before `pretrain`.

    Attributes:
        rbms: the layers.

    Example:

    >>> x = np.random.default_rng(0).integers(0, 2, (200, 6))
    >>> dbn = DBN([tf_wcd.RBMLayer(5, seed=0), tf_wcd.RBMLayer(4, seed=1)])
    >>> for rbm in dbn.rbms:
    ...     rbm.compile(keras.optimizers.SGD(0.05))
    >>> histories = dbn.pretrain(x, epochs=3, batch_size=20, verbose=0)
    >>> [len(history.history["reconstruction_error"]) for history in histories]
    [3, 3]
    >>> dbn.sample(7, gibbs_steps=10, seed=0).shape
    TensorShape([7, 6])
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """The expected units of the top layer, each layer fed with the expectations of the one below."""
        inputs = as_rows(tf.cast(inputs, self.compute_dtype), self.visible_shape)
        for rbm in self.rbms[:-1]:
            inputs = rbm(inputs)
        top = self.rbms[-1]
        return top_hidden_mean(top.machine(), inputs) if self.classes else top(inputs)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """``[batch, units of the top layer]``."""
        return (*shape_of_rows(input_shape, self.visible_shape)[:-1], self.rbms[-1].units)

    def initialize_transposed(self, layer: int) -> None:
        """Makes a layer the mirror image of the one below: the kernel transposed, and the biases exchanged.

        The layer needs as many hidden units as the layer below has visible ones, of the same kind. The model's
        distribution and its variational bound then are what they were without the layer, and better training of
        the layer can only raise the bound (Hinton, Osindero and Teh 2006).

        Args:
            layer: number of the layer, at least 1.
        """
        self.require_built()
        if not 1 <= layer < len(self.rbms):
            raise ValueError(f"`layer` must be in 1 .. {len(self.rbms) - 1}. Received: layer={layer!r}")
        below, above = self.rbms[layer - 1], self.rbms[layer]
        same = below.num_visible == above.units and below.visible_unit == above.hidden_unit
        if above.visible_unit.classes or not same:
            raise ValueError(
                f"The hidden units of {above.name!r} must be as the visible units of {below.name!r}, without labels. "
                f"Received: {above.units} {above.hidden_unit.name!r} and {below.num_visible} "
                f"{below.visible_unit.name!r} units"
            )
        above.kernel.assign(tf.transpose(below.kernel))
        above.visible_bias.assign(below.hidden_bias)
        above.hidden_bias.assign(below.visible_bias)

    # Greedy training

    def pretrain(
        self,
        x: Any,
        y: Any = None,
        epochs: int | Sequence[int] = 1,
        batch_size: int = 32,
        callbacks: Any = None,
        inputs: str = "probabilities",
        sample_weight: Any = None,
        steps_per_epoch: int | None = None,
        initial_layer: int | None = None,
        layer_callbacks: Mapping[int, Any] | None = None,
        verbose: int | str = "auto",
        start_at_means: bool = True,
    ) -> list[keras.callbacks.History]:
        """Trains the RBMs one after the other, each on what the trained layers below make of the data.

        The inputs of a layer are computed from the data batch by batch, and never stored. The model counts the epochs
        that each layer has done, and saves the counts: after an interruption, or on a model that was saved at any epoch
        and loaded again, the same call goes on where the training was.

        Args:
            x: an array ``[examples, visible units]``, or a `tf.data.Dataset` of batches ``x``, ``(x, y)`` or
                ``(x, y, sample_weight)``. Arrays are shuffled and repeated without a seam: an epoch has as many full
                batches as cover them.
            y: labels of an array, class numbers or one-hot, where the top layer has labels; refused otherwise.
            epochs: epochs of each layer *in all*, those of earlier calls included: one number, or one for each layer.
                ``(10, 0)`` trains the first layer and stops.
            batch_size: examples in a batch of an array.
            callbacks: Keras callbacks for the whole: their ``model`` is the DBN, epochs are counted through all layers,
                and the logs say which ``layer`` it is. ``ModelCheckpoint("dbn.keras")`` keeps the whole model. With
                ``BackupAndRestore("folder")`` a process that was killed at any moment goes on when it is started again,
                to the same bits as if it had not been.
            inputs: what a layer hands to the next: ``"probabilities"`` (its expectations) or ``"samples"``. The
                variational bound is a statement about samples; probabilities are less noisy.
            sample_weight: weight of each example of an array, rescaled to mean one.
            steps_per_epoch: batches in an epoch of an endless data set.
            initial_layer: first layer to train; ``None`` for the highest one that was begun.
            layer_callbacks: callbacks for single layers, by their number: there ``model`` is the RBM. `EarlyStopping`
                here ends the training of the layer, not of the whole.
            verbose: 0 silent, 1 progress bar, 2 one line for each epoch; ``"auto"`` is 1.
            start_at_means: before the first epoch, set the visible bias of the first layer to the means of the data
                (of a data set, of its first 10,000 examples), see `RBMLayer.start_at_means`. A bias that is not all
                zeros any more stays as it is.

        Returns:
            One Keras history for each layer, of the epochs of this call.
        """
        each = pretraining.check_epochs(epochs, len(self.rbms))
        data = pretraining.check_arguments(
            self, x, y, sample_weight, batch_size, steps_per_epoch, inputs, initial_layer
        )
        for text in monitor_doubts(self, callbacks):
            warnings.warn(text, stacklevel=2)
        if not self.built:
            self.build((None, data.width))
        self.remember_data(data)
        for rbm in self.rbms:
            # A model that is saved before a layer's turn has come has the layer's optimizer too.
            with self.distribute_strategy.scope():
                rbm.build_optimizer()
        show = 1 if verbose == "auto" else int(verbose)
        return pretraining.pretrain(
            self, data, each, inputs, initial_layer, callbacks, layer_callbacks, show, start_at_means
        )

    # The generative model

    def sample(
        self,
        num_samples: int,
        gibbs_steps: int = 1000,
        labels: Any = None,
        initial: Any = None,
        probabilities: bool = False,
        seed: int | None = None,
    ) -> tf.Tensor:
        """Data from the model: Gibbs sampling in the top RBM, then one pass down.

        Args:
            num_samples: number of chains; each gives one sample.
            gibbs_steps: steps of each chain in the top RBM, 0 or more.
            labels: class of each sample, where the top layer has labels: one number for all, ``[num_samples]`` numbers,
                or one-hot rows. They are held fixed. Without them the labels are drawn like all other units.
            initial: data ``[num_samples, visible units]``, or one row for all, that the chains start from, after a
                random pass up; random states of the top RBM if not given.
            probabilities: give the expectations of the data given the layer above, instead of states: pictures without
                the noise of the last draw.
            seed: an integer for reproducible samples; if not given, each call draws new ones.

        Returns:
            ``[num_samples, visible units]``; images where the first layer has a ``visible_shape``.
        """
        self.require_built()
        key = self.top.sampling_key(seed)
        start = start_of_top(self, num_samples, gibbs_steps, labels, initial, key)
        drawn = call_compiled_stack(
            generate,
            [*self.rbms[:-1], self.top],
            [*self.generative_machines(), self.top.machine()],
            *start,
            key,
            jit_compile=None,
        )
        return as_images(drawn.expected if probabilities else drawn.visible, self.visible_shape)

    def label_log_prob(self, x: Any) -> tf.Tensor:
        """Logarithm of the probability of each label, by the free energies of the top RBM.

        The data go up as expectations, and the top RBM compares the labels exactly: log softmax(-F(units, label)).

        Args:
            x: ``[n, visible units]``.

        Returns:
            ``[n, classes]``.
        """
        self.require_classes(f"visible_type={self.top.visible_unit.name!r}")
        x = self.checked_data(x)
        machines = self.machines()
        parts = []
        for start in range(0, len(x), ROWS_AT_A_TIME):
            states = pass_up(machines[:-1], tf.constant(x[start : start + ROWS_AT_A_TIME]))[-1]
            parts.append(label_log_prob(machines[-1], states))
        return tf.concat(parts, axis=0)

    def reconstruct(self, x: Any) -> tf.Tensor:
        """Expectations carried up to the top hidden units and down again, ``[n, visible units]`` or images as ``x``."""
        data = tf.constant(self.checked_data(x))
        rows = reconstruction(self.machines(), self.generative_machines(), data)
        return as_images(rows, self.visible_shape) if are_images(x, self.visible_shape) else rows

    # Models for back-propagation

    def classifier(self, num_classes: int, share: bool = False, dropout: float = 0.0) -> keras.Model:
        """A Keras model that starts from the pre-trained layers and ends in logits of the classes.

        Args:
            num_classes: number of classes.
            share: use the RBMs themselves as layers, so that back-propagation changes them, instead of ordinary dense
                layers with copies of their weights.
            dropout: part of the units of each layer that are left out while training.

        Returns:
            A model from ``[batch, visible units]`` to logits ``[batch, num_classes]``, not compiled. Train it with
            ``SparseCategoricalCrossentropy(from_logits=True)``.
        """
        self.require_built()
        return networks.classifier(self, num_classes, share, dropout)

    def regressor(self, num_targets: int = 1, share: bool = False, dropout: float = 0.0) -> keras.Model:
        """A Keras model that starts from the pre-trained layers and ends in real numbers.

        Args:
            num_targets: how many numbers.
            share: as for `classifier`; not of a DBN with labels.
            dropout: part of the units of each layer that are left out while training.

        Returns:
            A model from ``[batch, visible units]`` to ``[batch, num_targets]``, not compiled. Train it with ``"mse"``,
            on targets that are scaled to mean zero and variance one.

        Example:

        >>> dbn = DBN([tf_wcd.RBMLayer(5, seed=0), tf_wcd.RBMLayer(4, seed=1)])
        >>> dbn.build((None, 6))
        >>> dbn.regressor().output_shape
        (None, 1)
        """
        self.require_built()
        return networks.regressor(self, num_targets, share, dropout)

    def autoencoder(self, share: bool = False, linear_code: bool = False) -> keras.Model:
        """A Keras model that encodes data to the top hidden units and decodes them, unrolled from the RBMs.

        Args:
            share: use the weights of the RBMs themselves, upwards and downwards the same, instead of copies that are
                free to differ.
            linear_code: the code is c + W x, the field of the top hidden units, instead of their expectations in a
                bounded range. The decoder starts from the expectations' linear part. Only for copies.

        Returns:
            A model from ``[batch, visible units]`` to the same, not compiled. If the weights are copies, its layers
            ``encoder`` and ``decoder`` are models too.
        """
        self.require_built()
        return networks.autoencoder(self, share, linear_code)

    # Helpers

    def require_classes(self, received: str) -> None:
        """Raises ValueError if the top layer has no labels."""
        if not self.classes:
            raise ValueError(
                f"The top layer has no labels: make it with `RBMLayer(..., classes=...)`. Received: {received}"
            )

    # Saving

    def export(self, filepath: Any, format: str = "tf_saved_model", **kwargs: Any) -> None:  # noqa: A002 - Keras' name
        """Writes a SavedModel that TF-Serving serves, with signatures for samples and codes.

        They are `sample` (also `serving_default`), `gibbs`, `clamp` and `encode`, with the inputs and outputs that
        `RBMLayer.export` lists.

        `sample` is Gibbs sampling in the top RBM and one pass down. `gibbs` draws a pass up from the given data, does
        ``steps`` Gibbs steps in the top RBM, and passes down once. `clamp` goes round ``steps`` times: a pass up, one
        Gibbs step in the top RBM, a pass down, and the held units are put back. This fills in the rest of a picture,
        but only approximately: the pass up is the model's guess at its hidden units, not their true distribution, so
        not even endless rounds give the exact conditional distribution. (For a single RBM `clamp` is exact.) `encode`
        is the model called on data.

        Labels are drawn along with the other units of the top RBM and are not part of answers; `gibbs` and `clamp`
        start from a random label. `free_energy` and `log_prob` are missing: neither can be computed for a stack
        (`tf_wcd.evaluation.variational_bound` is a lower bound on log-probabilities).

        A row's answer depends on that row alone: with the same seed it is the same, bit for bit, in any batch and on
        any replica. `probability` is that of the upper state given the layer above; of other units the mean.

        Args:
            filepath: folder to write; it must not exist, or be empty.
            format: `"tf_saved_model"` as described here; Keras' other formats hold the model's call alone.
            **kwargs: ``gibbs_steps`` (1000), the steps of `sample`'s chains; ``start``, means of the top RBM's visible
                units, labels included, that these chains start from, or states of them, one of which is picked by each
                seed (if not given: exact samples of a top RBM of up to 2^16 visible states, and the means of what
                it was trained on for larger ones); ``max_steps`` (10000), the most steps that a request may ask for;
                ``max_rows`` (10000), the most rows in a batch; ``warmup`` (True), whether to include requests that warm
                a server up.

        Example:

        >>> import tempfile
        >>> dbn = DBN([tf_wcd.RBMLayer(5, seed=0), tf_wcd.RBMLayer(4, seed=1)])
        >>> dbn.build((None, 6))
        >>> path = tempfile.mkdtemp()
        >>> dbn.export(path, gibbs_steps=10)
        >>> served = tf.saved_model.load(path).signatures["sample"]
        >>> served(seed=tf.constant([1, 2], tf.int64))["visible"].shape
        TensorShape([2, 6])
        """
        if format != "tf_saved_model":
            return super().export(filepath, format=format, **kwargs)
        from tf_wcd.export.layer_facts import export_dbn

        return export_dbn(self, filepath, **kwargs)
