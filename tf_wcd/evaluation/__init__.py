"""How good a model is: exact sums where they can be done."""

from tf_wcd.evaluation.exact import MAX_UNITS, kl_divergence, log_partition, log_prob

__all__ = ["MAX_UNITS", "kl_divergence", "log_partition", "log_prob"]
