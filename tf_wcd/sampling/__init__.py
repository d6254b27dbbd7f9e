"""Samples of a machine: Gibbs sampling, exact samples, annealing."""

from tf_wcd.sampling.exact import ExactSampler, can_sample_exactly, exact_sampler
from tf_wcd.sampling.gibbs import (
    Drawn,
    draw_visible,
    gibbs,
    gibbs_from_hidden,
    gibbs_from_visible,
    gibbs_step,
    random_visible,
    run_chains,
)

__all__ = [
    "Drawn",
    "ExactSampler",
    "can_sample_exactly",
    "draw_visible",
    "exact_sampler",
    "gibbs",
    "gibbs_from_hidden",
    "gibbs_from_visible",
    "gibbs_step",
    "random_visible",
    "run_chains",
]
