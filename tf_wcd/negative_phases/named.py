"""The negative phases by name: pairs of a source of points and a rule for their weights."""

from __future__ import annotations

from typing import Any

import keras

from tf_wcd.arguments import check_integer
from tf_wcd.enumeration import MAX_LISTED_UNITS
from tf_wcd.negative_phases.composition import NegativePhase
from tf_wcd.negative_phases.points import (
    AnnealedChains,
    GivenPoints,
    PersistentChains,
    Reconstructions,
    TemperedChains,
    TrajectoryChains,
    WholeSpace,
)
from tf_wcd.negative_phases.weights import BalancedWeights, DataWeights, JarzynskiWeights, ModelWeights, UniformWeights


class _Pair(NegativePhase):
    """A phase whose arguments are those of its source and of its rule."""

    def get_config(self) -> dict[str, Any]:
        return {**self.source.get_config(), **self.weights.get_config()}


@keras.saving.register_keras_serializable(package="tf_wcd")
class CD(_Pair):
    """Contrastive Divergence: k-step reconstructions, each with the weight of the example that it started from.

    Args:
        gibbs_steps: k, at least 1.
    """

    def __init__(self, gibbs_steps: int = 1) -> None:
        super().__init__(Reconstructions(check_integer("gibbs_steps", gibbs_steps)), DataWeights())


@keras.saving.register_keras_serializable(package="tf_wcd")
class WCD(_Pair):
    """Weighted Contrastive Divergence: k-step reconstructions, each with the model's probability within the batch.

    Args:
        gibbs_steps: k. With 0 the points are the examples themselves, and the step is the gradient of the likelihood
            of their relative probabilities: consistent for targets in which every state has a probability, and is
            listed.
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
    """

    def __init__(self, gibbs_steps: int = 1, minimum_ess: float = 0.0) -> None:
        super().__init__(Reconstructions(gibbs_steps), ModelWeights(minimum_ess))


@keras.saving.register_keras_serializable(package="tf_wcd")
class BCD(_Pair):
    """Balanced Contrastive Divergence: k-step reconstructions, weighted by P divided by what they were drawn from.

    The expected step tends to the exact gradient as the batch grows; see
    `tf_wcd.negative_phases.weights.BalancedWeights`.

    Args:
        gibbs_steps: k, at least 1.
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
        side: whose density the weights are divided by: ``"hidden"``, that of the first hidden states, or ``"visible"``,
            that of the points themselves.
        mixture: divide by the mixture of all conditionals; without it, each point by its own.
    """

    def __init__(
        self, gibbs_steps: int = 1, minimum_ess: float = 0.0, side: str = "hidden", mixture: bool = True
    ) -> None:
        steps = check_integer("gibbs_steps", gibbs_steps)
        super().__init__(Reconstructions(steps), BalancedWeights(side, minimum_ess, mixture))


@keras.saving.register_keras_serializable(package="tf_wcd")
class PCD(_Pair):
    """Persistent Contrastive Divergence: persistent chains of equal weight.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
    """

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None) -> None:
        super().__init__(PersistentChains(gibbs_steps, chains), UniformWeights())


@keras.saving.register_keras_serializable(package="tf_wcd")
class WPCD(_Pair):
    """Weighted Persistent Contrastive Divergence: persistent chains, each with the model's probability among them.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
            With many units the plain weights collapse onto one or two chains.
    """

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None, minimum_ess: float = 0.0) -> None:
        super().__init__(PersistentChains(gibbs_steps, chains), ModelWeights(minimum_ess))


@keras.saving.register_keras_serializable(package="tf_wcd")
class JPCD(_Pair):
    """Persistent chains with Jarzynski's weights, which keep them samples of the model while it learns.

    Further chains, the observers, only watch. They give a running log Z, for
    `tf_wcd.evaluation.online_log_partition` and `tf_wcd.callbacks.OnlineLikelihood`; the logs have it as
    ``online_log_partition`` with ``online_log_partition_error``. See
    `tf_wcd.negative_phases.weights.JarzynskiWeights`.

    Args:
        gibbs_steps: steps that chains and observers advance at each update, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
        observers: number of observers, rounded up to whole groups; ``None`` for as many as there are chains, and at
            least 100. Each costs as much as a chain; with 0 there is no running log Z.
        resample_below: effective sample size, as a fraction of the chains, below which they are resampled.
        minimum_ess: effective sample size, as a fraction of the chains, that the weights are kept at in another way:
            by forgetting part of them. Where ``resamplings`` grows at every few updates, 0.5 serves better.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, negative_phase=JPCD(observers=200), seed=0)
    >>> rbm.compile(keras.optimizers.SGD(0.05))
    >>> history = rbm.fit(states, batch_size=14, epochs=5, verbose=0)
    >>> result = tf_wcd.evaluation.online_log_partition(rbm)
    >>> abs(result.estimate - tf_wcd.evaluation.log_partition(rbm)) < 4 * result.standard_error
    True
    """

    def __init__(
        self,
        gibbs_steps: int = 1,
        chains: int | None = None,
        observers: int | None = None,
        resample_below: float = 0.5,
        minimum_ess: float = 0.0,
    ) -> None:
        source = AnnealedChains(gibbs_steps, chains)
        super().__init__(source, JarzynskiWeights(resample_below, observers, source.gibbs_steps, minimum_ess))


@keras.saving.register_keras_serializable(package="tf_wcd")
class PT(_Pair):
    """Parallel tempering: persistent chains at several temperatures that swap states; those of the model count.

    See `tf_wcd.negative_phases.points.TemperedChains`. The metric ``swap_rate`` is the running rate of the pair of
    temperatures that swaps least: below 0.1 or so use more temperatures.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1, each followed by exchanges.
        chains: number of chains at each temperature; ``None`` for as many as there are examples in the first batch.
        temperatures: number of temperatures, or the inverse temperatures, increasing from 0 to 1.
    """

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None, temperatures: Any = 10) -> None:
        super().__init__(TemperedChains(gibbs_steps, chains, temperatures), UniformWeights())


@keras.saving.register_keras_serializable(package="tf_wcd")
class WPT(_Pair):
    """Weighted parallel tempering: as `PT`, each chain with the model's probability among them.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1, each followed by exchanges.
        chains: number of chains at each temperature; ``None`` for as many as there are examples in the first batch.
        temperatures: number of temperatures, or the inverse temperatures, increasing from 0 to 1.
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
        all_points: weigh the chains of all temperatures, not those of the model alone.
    """

    def __init__(
        self,
        gibbs_steps: int = 1,
        chains: int | None = None,
        temperatures: Any = 10,
        minimum_ess: float = 0.0,
        all_points: bool = False,
    ) -> None:
        super().__init__(TemperedChains(gibbs_steps, chains, temperatures, all_points), ModelWeights(minimum_ess))


@keras.saving.register_keras_serializable(package="tf_wcd")
class PTT(_Pair):
    """Parallel trajectory tempering: chains of the model that swap states with frozen moments of its own training.

    See `tf_wcd.negative_phases.points.TrajectoryChains`. The chains stay samples of a model whose modes plain chains
    cannot leave any more, and `tf_wcd.evaluation.online_log_partition` has its log Z. Use it from the first update on:
    the ladder begins where the model does. The metric ``rungs`` is the number of frozen moments, ``swap_rate`` that of
    the pair of neighbours that swaps least; if it falls far below ``threshold``, raise ``max_rungs``.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1.
        chains: number of chains of the model, and of each moment; ``None`` for as many as there are examples in the
            first batch.
        max_rungs: the most moments to keep. Each takes as much memory as the model's parameters and its chains.
        threshold: swap rate with the newest moment at which the next one is frozen.
        floor: swap rate below which an update is taken back, half-way.
    """

    def __init__(
        self,
        gibbs_steps: int = 1,
        chains: int | None = None,
        max_rungs: int = 20,
        threshold: float = 0.3,
        floor: float = 0.1,
    ) -> None:
        super().__init__(TrajectoryChains(gibbs_steps, chains, max_rungs, threshold, floor), UniformWeights())


@keras.saving.register_keras_serializable(package="tf_wcd")
class Exact(_Pair):
    """The exact gradient of the log-likelihood: the points are all visible states, their weights P itself.

    Args:
        max_units: log2 of the largest number of states to enumerate.
    """

    def __init__(self, max_units: int = MAX_LISTED_UNITS) -> None:
        super().__init__(WholeSpace(max_units), ModelWeights())

    def get_config(self) -> dict[str, Any]:
        return self.source.get_config()


@keras.saving.register_keras_serializable(package="tf_wcd")
class FixedPoints(_Pair):
    """A weighted negative phase over points that you give.

    Args:
        visible: ``[M, n_v]`` the points, in the states of the visible units.

    Example:

    >>> import tf_wcd
    >>> phase = tf_wcd.negative_phases.FixedPoints([[0, 1], [1, 0]])
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=phase)
    """

    def __init__(self, visible: Any) -> None:
        super().__init__(GivenPoints(visible), ModelWeights())

    def get_config(self) -> dict[str, Any]:
        return self.source.get_config()
