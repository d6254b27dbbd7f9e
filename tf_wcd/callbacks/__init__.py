"""Keras callbacks that evaluate the model while it trains."""

from tf_wcd.callbacks.annealed_likelihood import AnnealedLikelihood
from tf_wcd.callbacks.exact_kl import ExactKL
from tf_wcd.callbacks.gradient_error import GradientError
from tf_wcd.callbacks.mixing import Mixing
from tf_wcd.callbacks.online_likelihood import OnlineLikelihood
from tf_wcd.callbacks.parzen import Parzen
from tf_wcd.callbacks.pseudo_likelihood import PseudoLikelihood
from tf_wcd.callbacks.tensorboard import RBMTensorBoard

__all__ = [
    "AnnealedLikelihood",
    "ExactKL",
    "GradientError",
    "Mixing",
    "OnlineLikelihood",
    "Parzen",
    "PseudoLikelihood",
    "RBMTensorBoard",
]
