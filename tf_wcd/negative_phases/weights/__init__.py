"""Rules for the weights of the points of a negative phase."""

from tf_wcd.negative_phases.weights.balanced import BalancedWeights
from tf_wcd.negative_phases.weights.data import DataWeights
from tf_wcd.negative_phases.weights.jarzynski import JarzynskiWeights
from tf_wcd.negative_phases.weights.log_weights import (
    effective_sample_size,
    model_log_weights,
    tempered_log_weights,
    uniform_log_weights,
)
from tf_wcd.negative_phases.weights.model import ModelWeights
from tf_wcd.negative_phases.weights.resampling import resampled, resampled_where, systematic_indices
from tf_wcd.negative_phases.weights.uniform import UniformWeights

__all__ = [
    "BalancedWeights",
    "DataWeights",
    "JarzynskiWeights",
    "ModelWeights",
    "UniformWeights",
    "effective_sample_size",
    "model_log_weights",
    "resampled",
    "resampled_where",
    "systematic_indices",
    "tempered_log_weights",
    "uniform_log_weights",
]
