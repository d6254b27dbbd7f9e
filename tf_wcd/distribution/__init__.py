"""Distributions of TensorFlow Probability: an RBM's, a table of probabilities, and Parzen windows around samples."""

from tf_wcd.distribution.parzen import ParzenDistribution
from tf_wcd.distribution.rbm import RBMDistribution
from tf_wcd.distribution.table import TableDistribution

__all__ = ["ParzenDistribution", "RBMDistribution", "TableDistribution"]
