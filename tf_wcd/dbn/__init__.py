"""Deep Belief Networks."""

from tf_wcd.dbn.model import DBN

__all__ = ["DBN"]
