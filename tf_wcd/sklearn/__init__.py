"""Estimators for scikit-learn: an RBM as a transformer, and one that classifies. They need the extra ``sklearn``."""

try:
    import sklearn  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ImportError(
        "`tf_wcd.sklearn` needs scikit-learn: pip install 'tf-wcd[sklearn]'. Received: no module 'sklearn'"
    ) from error

from tf_wcd.sklearn.classifier import RBMClassifier
from tf_wcd.sklearn.transformer import RBMTransformer

__all__ = ["RBMClassifier", "RBMTransformer"]
