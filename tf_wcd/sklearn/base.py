"""What the estimators share: a layer that is made from their parameters, trained, and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tf_wcd.arguments import check_integer, check_positive
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.sklearn.layers import EstimatorLayer, warn_of_range
from tf_wcd.tables import is_sparse
from tf_wcd.units import Unit

ROWS_AT_A_TIME = 2048


class RBMEstimator(BaseEstimator):
    """An RBM as an estimator of scikit-learn; see `RBMTransformer` for the parameters.

    Attributes:
        rbm_: the `tf_wcd.RBMLayer`.
        n_features_in_: number of columns of the training data.
        feature_names_in_: their names, where the data were a frame.
    """

    rbm_: EstimatorLayer

    def __init__(
        self,
        n_components: int,
        learning_rate: float,
        batch_size: int,
        n_iter: int,
        random_state: Any,
        negative_phase: str | NegativePhase,
        gibbs_steps: int | None,
        visible_type: str | Unit,
        hidden_type: str | Unit,
        momentum: float,
        centered: bool,
        initial_stddev: float,
    ) -> None:
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.random_state = random_state
        self.negative_phase = negative_phase
        self.gibbs_steps = gibbs_steps
        self.visible_type = visible_type
        self.hidden_type = hidden_type
        self.momentum = momentum
        self.centered = centered
        self.initial_stddev = initial_stddev

    # Training

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        check_positive("learning_rate", self.learning_rate)
        check_integer("batch_size", self.batch_size)
        check_integer("n_iter", self.n_iter, least=0)
        check_positive("initial_stddev", self.initial_stddev)

    def _checked(self, X: Any, y: Any = "no_validation", reset: bool = False) -> Any:
        """Data as scikit-learn wants them, with labels if they are given."""
        return validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset)

    def _new_layer(self, columns: int, **options: Any) -> EstimatorLayer:
        """A layer for data of so many columns, ready to be trained."""
        # scikit-learn's rules: an integer gives the same numbers at each fit, a RandomState goes on, None is NumPy's.
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        layer = EstimatorLayer(
            self.n_components,
            visible_type=self.visible_type,
            hidden_type=self.hidden_type,
            negative_phase=self.negative_phase,
            gibbs_steps=self.gibbs_steps,
            centered=self.centered,
            kernel_initializer=keras.initializers.RandomNormal(stddev=self.initial_stddev, seed=int(seed)),
            seed=int(seed),
            **options,
        )
        layer.build((None, columns))
        return layer

    def _compile(self, layer: EstimatorLayer, jit_compile: str | bool) -> None:
        optimizer = keras.optimizers.SGD(self.learning_rate, momentum=self.momentum)
        layer.compile(optimizer, jit_compile=jit_compile)
        layer.validate()
        layer.prepare(self.batch_size)  # as many chains as a batch has examples, however few data come first

    def _train(
        self, layer: EstimatorLayer, X: Any, y: Any = None, callbacks: Sequence[keras.callbacks.Callback] = ()
    ) -> None:
        """Trains a new layer, and keeps it."""
        x = dense(X).astype("float32")
        possible = warn_of_range(x, layer.data_unit)
        self._compile(layer, "auto")
        if self.centered and y is None and possible.any():
            layer.start_at_means(x[possible])
        if self.n_iter:
            layer.fit(
                x,
                y,
                batch_size=self.batch_size,
                epochs=self.n_iter,
                steps_per_epoch=-(-len(x) // self.batch_size),  # all batches full: one shape to trace, not two
                callbacks=list(callbacks),
                verbose=0,
            )
        self.rbm_ = layer

    # The trained model

    def _of_rows(self, function: Callable[[Machine, tf.Tensor], tf.Tensor], X: Any) -> np.ndarray:
        """A function of rows, computed with 64 bits: then a row's result does not depend on those beside it."""
        check_is_fitted(self)
        X = self._checked(X)
        machine = self.rbm_.machine().cast("float64")
        starts = range(0, X.shape[0], ROWS_AT_A_TIME)
        chunks = (tf.constant(dense(X[start : start + ROWS_AT_A_TIME]), tf.float64) for start in starts)
        return np.concatenate([function(machine, chunk).numpy() for chunk in chunks]).astype(X.dtype)

    @property
    def components_(self) -> np.ndarray:
        """Weights, ``[n_components, columns]``; assign other ones to change the model."""
        return self.rbm_.kernel.numpy().T

    @components_.setter
    def components_(self, values: Any) -> None:
        values, shape = np.asarray(values), self.components_.shape
        if values.shape != shape:
            raise ValueError(f"`components_` must have the shape {shape}. Received: shape {values.shape}")
        self.rbm_.kernel.assign(values.T)

    @property
    def intercept_hidden_(self) -> np.ndarray:
        """Biases of the hidden units, ``[n_components]``."""
        return self.rbm_.hidden_bias.numpy()

    @intercept_hidden_.setter
    def intercept_hidden_(self, values: Any) -> None:
        self.rbm_.hidden_bias.assign(np.asarray(values))

    @property
    def intercept_visible_(self) -> np.ndarray:
        """Biases of the visible units, ``[columns]``."""
        return self.rbm_.visible_bias.numpy()

    @intercept_visible_.setter
    def intercept_visible_(self, values: Any) -> None:
        self.rbm_.visible_bias.assign(np.asarray(values))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def dense(X: Any) -> np.ndarray:
    """Data as an array, sparse matrices too."""
    return X.toarray() if is_sparse(X) else np.asarray(X)
