"""Estimators for scikit-learn: an RBM as a transformer, and one that classifies. They need the extra ``sklearn``."""

from tf_wcd import extras

extras.need("`tf_wcd.sklearn`", "sklearn")

from tf_wcd.sklearn.classifier import RBMClassifier
from tf_wcd.sklearn.transformer import RBMTransformer

__all__ = ["RBMClassifier", "RBMTransformer"]
