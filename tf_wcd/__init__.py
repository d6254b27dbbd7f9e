"""tf_wcd: Restricted Boltzmann Machines for Keras, trained with Weighted Contrastive Divergence."""

import importlib
from types import ModuleType

import keras

if keras.config.backend() != "tensorflow":
    raise ImportError(
        f"tf_wcd needs Keras' TensorFlow backend. Received: the {keras.config.backend()!r} backend. "
        "Set the environment variable KERAS_BACKEND=tensorflow before anything imports Keras."
    )

from tf_wcd import callbacks, datasets, evaluation, negative_phases, regularizers, sequences, units
from tf_wcd.dbn import DBN
from tf_wcd.ensemble import RBMEnsemble
from tf_wcd.layer import RBMLayer
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.training.guard import DivergenceError
from tf_wcd.version import __version__

__all__ = [
    "DBN",
    "DivergenceError",
    "NegativePhase",
    "RBMEnsemble",
    "RBMLayer",
    "__version__",
    "callbacks",
    "datasets",
    "distribution",
    "evaluation",
    "mcmc",
    "negative_phases",
    "plots",
    "regularizers",
    "sequences",
    "sklearn",
    "units",
]


def __getattr__(name: str) -> ModuleType:
    # TensorFlow Probability takes as long to import as half of everything else, and Matplotlib some time too: only who
    # asks pays for it. scikit-learn is an extra, which need not be there.
    if name in ("distribution", "mcmc", "plots", "sklearn"):
        return importlib.import_module(f"tf_wcd.{name}")
    raise AttributeError(f"module 'tf_wcd' has no attribute {name!r}")
