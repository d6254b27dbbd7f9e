"""An RBM as a transformer of scikit-learn, with the interface of its BernoulliRBM."""

from __future__ import annotations

import time
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tf_wcd import units
from tf_wcd.evaluation.pseudo import random_bits_estimate, sum_over_all
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.programs import call_compiled_stack
from tf_wcd.random import batch_source
from tf_wcd.sampling import gibbs_from_visible
from tf_wcd.sklearn.base import RBMEstimator, dense
from tf_wcd.sklearn.layers import warn_of_range
from tf_wcd.units import Unit


def _has_finite_states(estimator: Any) -> bool:
    return units.get(estimator.visible_type).finite


class RBMTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RBMEstimator):
    """A Restricted Boltzmann Machine that takes the place of `sklearn.neural_network.BernoulliRBM`.

    The parameters up to ``random_state`` are those of BernoulliRBM, and so is what is trained if no others are given:
    persistent contrastive divergence with as many chains as a batch has examples. The examples come in another order at
    each pass. Data out of the range of the units give a warning.

    Args:
        n_components: number of hidden units.
        learning_rate: learning rate.
        batch_size: examples in a batch, and persistent chains.
        n_iter: passes over the data, which follow each other without a seam: all batches are full.
        verbose: print the pseudo-likelihood after each pass, as BernoulliRBM does.
        random_state: an integer for the same results at each call, a `numpy.random.RandomState`, or ``None``.
        negative_phase: ``"pcd"``, or any other that `tf_wcd.RBMLayer` takes.
        gibbs_steps: its Gibbs steps; 1 if not given.
        visible_type: ``"bernoulli"``, or any other type of units: ``"gaussian"`` for standardised data, with a learning
            rate of about 0.001.
        hidden_type: as ``visible_type``.
        momentum: momentum of the updates.
        centered: use the centred gradient, which learns better where most units are on, or off. The visible biases then
            start where units without weights have the means of the data, and not at 0 as those of BernoulliRBM: without
            that the first centred steps go into hidden units that only switch pixels off.
        initial_stddev: standard deviation of the initial weights. Features for a linear classifier gain from more, 0.1
            to 1 say: hidden units that begin different stay different.

    Attributes:
        rbm_: the `tf_wcd.RBMLayer`, for everything else: likelihoods, plots, export.
        components_: weights ``[n_components, columns]``.
        intercept_hidden_: biases of the hidden units.
        intercept_visible_: biases of the visible units.
        n_features_in_: number of columns of the training data.
        feature_names_in_: their names, where the data were a frame.

    Example:

    >>> from tf_wcd.sklearn import RBMTransformer
    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = RBMTransformer(n_components=6, n_iter=2, random_state=0)
    >>> rbm.fit_transform(states).shape
    (14, 6)
    >>> rbm.sample(3, gibbs_steps=10).shape
    (3, 9)
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float = 0.1,
        batch_size: int = 10,
        n_iter: int = 10,
        verbose: int = 0,
        random_state: Any = None,
        negative_phase: str | NegativePhase = "pcd",
        gibbs_steps: int | None = None,
        visible_type: str | Unit = "bernoulli",
        hidden_type: str | Unit = "bernoulli",
        momentum: float = 0.0,
        centered: bool = False,
        initial_stddev: float = 0.01,
    ) -> None:
        super().__init__(
            n_components=n_components,
            learning_rate=learning_rate,
            batch_size=batch_size,
            n_iter=n_iter,
            random_state=random_state,
            negative_phase=negative_phase,
            gibbs_steps=gibbs_steps,
            visible_type=visible_type,
            hidden_type=hidden_type,
            momentum=momentum,
            centered=centered,
            initial_stddev=initial_stddev,
        )
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Trains a new model on the data.

        Args:
            X: ``[examples, columns]``: an array, a frame, or a sparse matrix.
            y: not used.

        Returns:
            The estimator.
        """
        self._check_parameters()
        X = self._checked(X, reset=True)
        callbacks = [_Report(self, dense(X))] if self.verbose else []
        self._train(self._new_layer(X.shape[1]), X, callbacks=callbacks)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One update of the model, on these data as one batch; the first call makes the model.

        Args:
            X: ``[examples, columns]``.
            y: not used.

        Returns:
            The estimator.
        """
        self._check_parameters()
        new = not hasattr(self, "rbm_")
        x = dense(self._checked(X, reset=new)).astype("float32")
        if new:
            layer = self._new_layer(x.shape[1])
            warn_of_range(x, layer.data_unit)
            self._compile(layer, jit_compile=False)
            self.rbm_ = layer
        elif not self.rbm_.compiled:  # a layer of the user's
            self._compile(self.rbm_, jit_compile=False)
        self.rbm_.optimizer.learning_rate.assign(self.learning_rate)
        self.rbm_.train_on_batch(x)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Expected hidden units given the data: probabilities, for binary units.

        Args:
            X: ``[examples, columns]``.

        Returns:
            ``[examples, n_components]``.
        """
        return self._of_rows(_hidden_mean, X)

    @available_if(_has_finite_states)
    def score_samples(self, X: Any) -> np.ndarray:
        """Pseudo-log-likelihood of each example, in nats: the sum over all units of log P(unit | the others).

        BernoulliRBM estimates the same number from one unit of each example, picked at random.

        Args:
            X: ``[examples, columns]``.

        Returns:
            ``[examples]``.
        """
        return self._of_rows(
            lambda machine, rows: call_compiled_stack(_sum_over_all, [self.rbm_], [machine], rows, jit_compile=False), X
        )

    @available_if(_has_finite_states)
    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`, which searches such as GridSearchCV maximise.

        Args:
            X: ``[examples, columns]``.
            y: not used.
        """
        return float(np.mean(self.score_samples(X)))

    def gibbs(self, v: Any) -> np.ndarray:
        """Visible states after one Gibbs step from the given ones.

        Args:
            v: ``[examples, columns]``.

        Returns:
            ``[examples, columns]``; each call draws new ones.
        """
        return self._of_rows(lambda machine, rows: _one_step(machine, rows, self.rbm_.sampling_key(None)), v)

    def sample(self, n_samples: int = 1, gibbs_steps: int = 1000, seed: int | None = None) -> np.ndarray:
        """States drawn from the model, by chains of Gibbs sampling.

        Args:
            n_samples: number of chains; the last state of each is returned.
            gibbs_steps: steps of each chain.
            seed: an integer for reproducible samples; if not given, each call draws new ones.

        Returns:
            ``[n_samples, columns]``.
        """
        check_is_fitted(self)
        return self.rbm_.sample(n_samples, gibbs_steps=gibbs_steps, seed=seed).numpy()

    @property
    def _n_features_out(self) -> int:
        return self.rbm_.units  # before `fit` an AttributeError, as scikit-learn expects

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _Report(keras.callbacks.Callback):
    """Prints a line after each pass over the data, in the format of BernoulliRBM."""

    def __init__(self, estimator: RBMTransformer, x: np.ndarray) -> None:
        super().__init__()
        self._name, self._x = type(estimator).__name__, tf.constant(x, tf.float32)
        self._begin = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        machine = self.model.machine()
        told = ""
        if machine.visible.finite:
            estimate = random_bits_estimate(machine, self._x, self.model.sampling_key(epoch))
            told = f"pseudo-likelihood = {float(tf.reduce_mean(estimate)):.2f}, "
        now = time.monotonic()
        print(f"[{self._name}] Iteration {epoch + 1}, {told}time = {now - self._begin:.2f}s")
        self._begin = now


def _hidden_mean(machine: Machine, visible: tf.Tensor) -> tf.Tensor:
    return machine.hidden.mean(machine.hidden_field(visible))


def _sum_over_all(machines: list[Machine], visible: tf.Tensor) -> tf.Tensor:
    return sum_over_all(machines[0], visible)


def _one_step(machine: Machine, visible: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    return gibbs_from_visible(machine, machine.hidden_field(visible), 1, batch_source(key)).visible
