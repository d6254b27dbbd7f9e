"""How far the steps of negative phases are from the exact gradient."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd import negative_phases
from tf_wcd.arguments import check_integer, is_integer
from tf_wcd.data_checks import check_sample_weight
from tf_wcd.evaluation.exact import machine_of
from tf_wcd.evaluation.exact_gradient import exact_gradient
from tf_wcd.evaluation.gradient_draws import Draws, Sums, as_vector, named_parts
from tf_wcd.negative_phases import NegativePhase

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

STARTS = ("own", "exact")


@dataclasses.dataclass(frozen=True)
class StepError:
    """How far the steps of a negative phase are from the exact gradient g, in lengths of g.

    Attributes:
        bias: length of the mean step minus g. The noise that a mean of R draws still has is taken out: of the
            square of the length, the sum of the variances over R is subtracted, which leaves it without bias; where
            less than nothing is left, the bias is 0.
        bias_error: standard error of ``bias``, by a jackknife over 20 groups of draws. Where ``bias`` is smaller than
            it, this is what the draws could have told from 0.
        deviation: standard deviation of a step: root of the sum of the variances of its elements.
        cosine: mean cosine of the angle between a step and g.
        cosine_error: its standard error.
    """

    bias: float
    bias_error: float
    deviation: float
    cosine: float
    cosine_error: float


@dataclasses.dataclass(frozen=True)
class PhaseError(StepError):
    """The errors of the whole step of a phase, and of each parameter's part of it.

    Attributes:
        by_parameter: `StepError` of each of the layer's parameters, in lengths of that part of g.
    """

    by_parameter: Mapping[str, StepError] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class GradientErrors(Mapping[str, PhaseError]):
    """The errors of several negative phases at one moment of a training, by their names.

    Attributes:
        phases: `PhaseError` of each phase.
        norm: length of the exact gradient.
        batch_size: examples in the batch of a draw.
        repetitions: number of draws.
    """

    phases: Mapping[str, PhaseError]
    norm: float
    batch_size: int
    repetitions: int

    def __getitem__(self, name: str) -> PhaseError:
        return self.phases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.phases)

    def __len__(self) -> int:
        return len(self.phases)


def gradient_error(
    rbm: RBMLayer,
    x: Any,
    phases: Any = ("cd", "wcd", "bcd"),
    *,
    sample_weight: Any = None,
    batch_size: int | None = None,
    repetitions: int = 1000,
    start: str | int = "own",
    seed: int | None = None,
) -> GradientErrors:
    """Bias, standard deviation and direction of the steps that negative phases would take from here.

    Each phase draws many steps at the present parameters, which are compared with the exact gradient of the
    log-likelihood of all the data. The model must be small enough for its smaller side to be enumerated; neither it nor
    its chains change. If it learns by the centred gradient, these are steps of that.

    Args:
        rbm: a built `RBMLayer` with at most 20 units on its smaller side.
        x: the training data ``[n, visible units]``.
        phases: negative phases, names or `NegativePhase` objects; or a mapping of names of your own to them.
        sample_weight: weight of each example, as for `fit`.
        batch_size: examples in the batch of a draw, chosen at random; all if not given, and then the positive phase is
            exact.
        repetitions: number of draws.
        start: where the chains of phases with persistent chains start at each draw. ``"own"``: the model's own chains,
            if it has any and is trained with that phase, else as ``"exact"``. ``"exact"``: independent samples of the
            model, which is what chains follow that have mixed. A number: so many Gibbs steps from the states that the
            phase starts a training from. (Phases whose state is no chains start as they start a training.)
        seed: an integer for reproducible draws; if not given, each call draws new ones.

    Returns:
        A `GradientErrors`, a mapping from the name of each phase to its `PhaseError`.

    Example:

    >>> states, probabilities = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(18, kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=0))
    >>> rbm.build((None, 9))
    >>> errors = gradient_error(rbm, states, ["cd", "bcd", "exact"], sample_weight=probabilities, seed=0)
    >>> errors["bcd"].bias < errors["cd"].bias / 2
    True
    >>> round(errors["exact"].bias, 4), round(errors["exact"].cosine, 4)
    (0.0, 1.0)
    """
    machine_of(rbm)  # or an error, of an ensemble
    named = named_phases(phases)
    x = rbm.checked_visible(x)
    weights = check_sample_weight(np.ones(len(x)) if sample_weight is None else sample_weight, len(x))
    weights = weights / weights.sum()
    rows = len(x) if batch_size is None else min(check_integer("batch_size", batch_size), len(x))
    repetitions = check_integer("repetitions", repetitions, least=2)
    if start not in STARTS and not (is_integer(start) and int(start) >= 0):
        raise ValueError(f"`start` must be one of {list(STARTS)} or a number of steps. Received: start={start!r}")
    exact = exact_gradient(rbm, tf.constant(x), tf.constant(weights))
    vector, parts = as_vector(exact), _parts(named_parts(exact))
    draws = Draws(
        rbm, tf.constant(x), tf.constant(weights * len(x), rbm.variable_dtype), rows, start, rbm.sampling_key(seed)
    )
    names = list(named_parts(exact))
    errors = {
        name: _phase_error(draws.sums(phase, vector, parts, repetitions), vector.numpy(), parts, names)
        for name, phase in named.items()
    }
    return GradientErrors(errors, float(np.linalg.norm(vector)), rows, repetitions)


def named_phases(phases: Any) -> dict[str, NegativePhase]:
    """Negative phases by name, from what a user passed.

    Example:

    >>> list(named_phases(["cd", tf_wcd.negative_phases.WCD(10)]))
    ['cd', 'wcd']
    """
    if isinstance(phases, Mapping):
        return {str(name): _phase(phase) for name, phase in phases.items()}
    listed = [phases] if isinstance(phases, str | NegativePhase) else list(phases)
    named = {}
    for given in listed:
        phase = _phase(given)
        name = given.lower() if isinstance(given, str) else negative_phases.name_of(phase) or type(phase).__name__
        if name in named:
            raise ValueError(
                "Phases of one name need names of your own: pass a mapping of names to phases. "
                f"Received: {name!r} twice"
            )
        named[name] = phase
    if not named:
        raise ValueError(f"`phases` must name at least one negative phase. Received: phases={phases!r}")
    return named


def _phase(given: Any) -> NegativePhase:
    # The same object for the same name, so that what is compiled for it is found again.
    if isinstance(given, str) and given.lower() in negative_phases.PHASES:
        return _made(negative_phases.PHASES[given.lower()])
    return negative_phases.get(given)


@functools.lru_cache(maxsize=32)
def _made(make: Callable[[], NegativePhase]) -> NegativePhase:
    return make()


def _parts(parts: Mapping[str, tf.Tensor]) -> np.ndarray:
    """float64 ``[P, S]``: 1 where an element belongs to the whole (always), and to each of the parameters."""
    sizes = [int(np.prod(part.shape)) for part in parts.values()]
    own = np.repeat(np.eye(len(sizes)), sizes, axis=0)
    return np.concatenate([np.ones([len(own), 1]), own], axis=1)


def _phase_error(sums: Sums, exact: np.ndarray, parts: np.ndarray, names: Sequence[str]) -> PhaseError:
    whole, *others = (_step_error(sums, exact, part, number) for number, part in enumerate(parts.T > 0))
    return PhaseError(**vars(whole), by_parameter=dict(zip(names, others, strict=True)))


def _step_error(sums: Sums, exact: np.ndarray, part: np.ndarray, number: int) -> StepError:
    """The errors of one part of the gradient."""
    filled = sums.counts > 0
    counts, errors = sums.counts[filled], sums.errors[filled][:, part]
    squares, cosines = sums.squares[filled, number], sums.cosines[filled, number]
    norm = float(np.linalg.norm(exact[part])) or np.nan  # where the gradient is zero, nothing is relative to it

    def squared_bias(count: float, total: np.ndarray, square: float) -> float:
        """Mean product of the errors of two different draws."""
        return float((total @ total - square) / (count * (count - 1))) if count > 1 else np.nan

    count, total, square = counts.sum(), errors.sum(axis=0), squares.sum()
    found = squared_bias(count, total, square)
    without = [squared_bias(count - c, total - e, square - s) for c, e, s in zip(counts, errors, squares, strict=True)]
    without_cosines = (cosines.sum() - cosines) / (count - counts)
    bias = np.sqrt(max(found, 0.0))
    variance = max(square / count - total @ total / count**2, 0.0) * count / (count - 1)
    return StepError(
        bias=float(bias / norm),
        bias_error=float((np.sqrt(max(found, 0.0) + _jackknife(without)) - bias) / norm),
        deviation=float(np.sqrt(variance) / norm),
        cosine=float(cosines.sum() / count),
        cosine_error=_jackknife(without_cosines),
    )


def _jackknife(without: Any) -> float:
    """Standard error of an estimate, from what it is without each of the groups."""
    values = np.asarray(without)
    return float(np.sqrt((len(values) - 1) / len(values) * np.sum(np.square(values - values.mean()))))
