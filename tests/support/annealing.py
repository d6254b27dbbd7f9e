"""For tests of annealed importance sampling: a model with two modes, and what an estimate must cover."""

import numpy as np

from tests.support import brute_force as bf
from tf_wcd.evaluation import log_partition


def two_modes(depth=2.0):
    """A model of two deep modes, all units +1 or all -1, and its log Z; every bias is 0.1."""
    p = bf.Parameters(np.full((8, 6), depth), np.full(8, 0.1), np.full(6, 0.1))
    rbm = bf.make_rbm(p, "spin", "spin")
    return rbm, log_partition(rbm)


def assert_bracketed(result, exact):
    """The exact value is near each estimate, within four standard errors, and the interval covers all estimates."""
    assert abs(result.estimate - exact) <= 4 * result.standard_error
    assert abs(result.reverse_estimate - exact) <= 4 * result.reverse_standard_error
    assert abs(result.bridge - exact) <= 4 * result.bridge_standard_error
    assert result.lower <= result.bridge <= result.upper
    for value, error in (
        (result.estimate, result.standard_error),
        (result.reverse_estimate, result.reverse_standard_error),
    ):
        assert result.lower <= value - 2 * error
        assert value + 2 * error <= result.upper
