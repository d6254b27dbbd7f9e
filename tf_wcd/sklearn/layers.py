"""The layer inside of an estimator."""

from __future__ import annotations

import copy
import dataclasses
import warnings

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.layer import RBMLayer
from tf_wcd.training.inputs import DataSpec
from tf_wcd.units import Unit


@keras.saving.register_keras_serializable(package="tf_wcd.sklearn")
class EstimatorLayer(RBMLayer):
    """An `RBMLayer` that also trains on numbers outside of the range of its units.

    scikit-learn's own RBM takes them, and in pipelines they occur: a scaler that was fitted to the training data leaves
    some of the others a little above 1. `warn_of_range` says so where they are many.
    """

    def data_spec(self) -> DataSpec:
        spec = super().data_spec()
        return dataclasses.replace(spec, unit=_tolerant(spec.unit))


def _tolerant(unit: Unit) -> Unit:
    """The unit type, but that it takes all finite numbers as data."""
    tolerant = copy.copy(unit)
    tolerant.accepts = lambda x: tf.ones(tf.shape(x), bool)  # type: ignore[method-assign]
    return tolerant


def warn_of_range(x: np.ndarray, unit: Unit) -> np.ndarray:
    """Warns of training data that the units cannot have; says of each row whether they can."""
    good = unit.accepts(tf.constant(x)).numpy()
    if not good.all():
        warnings.warn(
            f"`X` should be {unit.domain()} for {unit.name!r} visible units: the model cannot have other values, and "
            "learns little from them. Scale the data, by sklearn.preprocessing.MinMaxScaler() say, or use "
            f"visible_type='gaussian' after a StandardScaler. Received: {(~good).mean():.0%} of the values out of "
            f"range, from {x.min():.3g} to {x.max():.3g}",
            stacklevel=4,
        )
    return good.all(axis=1)
