"""An RBM with labels as a classifier of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tf_wcd.negative_phases import NegativePhase
from tf_wcd.sampling.passes import label_log_prob
from tf_wcd.sklearn.base import RBMEstimator
from tf_wcd.units import Unit


class RBMClassifier(ClassifierMixin, RBMEstimator):
    """A Restricted Boltzmann Machine with labels among its visible units (Larochelle and Bengio 2008).

    P(label | data) is exact: a softmax over the free energies of the data with each label.

    Args:
        n_components: number of hidden units.
        learning_rate: learning rate.
        batch_size: examples in a batch.
        n_iter: passes over the data.
        random_state: an integer for the same results at each call, a `numpy.random.RandomState`, or ``None``.
        objective: ``"discriminative"``, the labels given the data; ``"generative"``, the joint distribution of both,
            with a learning rate of about a tenth; or ``"hybrid"``, the former with ``generative_weight`` of the latter.
        generative_weight: weight of the generative gradient in the hybrid one.
        negative_phase: of the generative gradient; any that `tf_wcd.RBMLayer` takes.
        gibbs_steps: its Gibbs steps; 1 if not given.
        visible_type: ``"bernoulli"``, or any other type of units.
        hidden_type: as ``visible_type``.
        momentum: momentum of the updates.
        centered: use the centred gradient.
        initial_stddev: standard deviation of the initial weights.

    Attributes:
        classes_: the labels, in increasing order.
        rbm_: the `tf_wcd.RBMLayer`, whose labels are numbers: ``classes_`` has their names.
        n_features_in_: number of columns of the training data.
        feature_names_in_: their names, where the data were a frame.

    Example:

    >>> from tf_wcd.sklearn import RBMClassifier
    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> names = np.where(states[:, 4] == 1, "filled", "hollow")
    >>> classifier = RBMClassifier(n_components=10, n_iter=50, random_state=0).fit(states, names)
    >>> classifier.predict(states[:1]).tolist(), classifier.predict_proba(states).shape
    (['hollow'], (14, 2))
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        learning_rate: float = 0.5,
        batch_size: int = 10,
        n_iter: int = 10,
        random_state: Any = None,
        objective: str = "discriminative",
        generative_weight: float = 0.01,
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
        self.objective = objective
        self.generative_weight = generative_weight

    def fit(self, X: Any, y: Any) -> Self:
        """Trains a new model on data with labels.

        Args:
            X: ``[examples, columns]``: an array, a frame, or a sparse matrix.
            y: ``[examples]`` labels: numbers or names.

        Returns:
            The estimator.
        """
        self._check_parameters()
        X, y = self._checked(X, y, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"`y` must have at least two classes. Received: one class, {self.classes_[0]!r}")
        layer = self._new_layer(
            X.shape[1],
            classes=len(self.classes_),
            objective=self.objective,
            generative_weight=self.generative_weight,
        )
        self._train(layer, X, numbers)
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of the probability of each label.

        Args:
            X: ``[examples, columns]``.

        Returns:
            ``[examples, labels]``, in the order of ``classes_``.
        """
        return self._of_rows(label_log_prob, X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each label.

        Args:
            X: ``[examples, columns]``.

        Returns:
            ``[examples, labels]``, in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each example.

        Args:
            X: ``[examples, columns]``.

        Returns:
            ``[examples]``.
        """
        log_prob = self.predict_log_proba(X)
        return self.classes_[np.argmax(log_prob, axis=1)]

    def sample(
        self, n_samples: int = 1, labels: Any = None, gibbs_steps: int = 1000, seed: int | None = None
    ) -> np.ndarray:
        """Data drawn from the model, by chains of Gibbs sampling. Train it with a generative part of the objective.

        Args:
            n_samples: number of chains; the last state of each is returned.
            labels: one of ``classes_`` for all samples, or one for each; drawn with the data if not given.
            gibbs_steps: steps of each chain.
            seed: an integer for reproducible samples; if not given, each call draws new ones.

        Returns:
            ``[n_samples, columns]``.
        """
        check_is_fitted(self)
        numbers = None if labels is None else self._numbers(labels)
        return self.rbm_.sample(n_samples, gibbs_steps=gibbs_steps, seed=seed, labels=numbers).numpy()

    def _numbers(self, labels: Any) -> np.ndarray:
        labels = np.asarray(labels)
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(f"`labels` must be of {self.classes_.tolist()}. Received: {labels[~known].tolist()[:3]}")
        return np.searchsorted(self.classes_, labels)
