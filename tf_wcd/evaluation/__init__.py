"""How good a model is: exact sums where they can be done, estimates with their errors elsewhere."""

from tf_wcd.enumeration import MAX_UNITS
from tf_wcd.evaluation.annealed import annealed_log_partition
from tf_wcd.evaluation.directions import AnnealedLogPartition
from tf_wcd.evaluation.equilibrium import Mixing, mixing
from tf_wcd.evaluation.exact import kl_divergence, log_partition, log_prob
from tf_wcd.evaluation.likelihood import LogLikelihood, log_likelihood
from tf_wcd.evaluation.online import OnlineLogPartition, online_log_partition
from tf_wcd.evaluation.partition_interval import LogPartitionInterval, log_partition_interval
from tf_wcd.evaluation.parzen import parzen_bandwidth, parzen_log_likelihood
from tf_wcd.evaluation.pseudo import PseudoLogLikelihood, pseudo_log_likelihood
from tf_wcd.evaluation.step_errors import GradientErrors, PhaseError, StepError, gradient_error
from tf_wcd.evaluation.variational import VariationalBound, variational_bound

__all__ = [
    "MAX_UNITS",
    "AnnealedLogPartition",
    "GradientErrors",
    "LogLikelihood",
    "LogPartitionInterval",
    "Mixing",
    "OnlineLogPartition",
    "PhaseError",
    "PseudoLogLikelihood",
    "StepError",
    "VariationalBound",
    "annealed_log_partition",
    "gradient_error",
    "kl_divergence",
    "log_likelihood",
    "log_partition",
    "log_partition_interval",
    "log_prob",
    "mixing",
    "online_log_partition",
    "parzen_bandwidth",
    "parzen_log_likelihood",
    "pseudo_log_likelihood",
    "variational_bound",
]
