"""The protocols of the two studies of weights: one recipe on the small problems, and all methods at equal time."""

from __future__ import annotations

from typing import NamedTuple

from trainers.settings import paper
from trainers.settings.runs import ImageMethod, SmallRun

HIDDEN_MULTIPLE = 5


class Recipe(NamedTuple):
    """How a small problem is trained with one method. The defaults are the recipe; the rest of it is in `run`.

    Attributes:
        problem: a small problem.
        goal: the mean KL that is aimed at.
        negative_phase: its name.
        gibbs_steps: k.
        learning_rate: at the start.
        variance: of the initial weights.
        schedule: "constant" or "linear".
        updates: length of the runs.
    """

    problem: str
    goal: float
    negative_phase: str = "bcd"
    gibbs_steps: int = 1
    learning_rate: float = 0.01
    variance: float = 0.01
    schedule: str = "constant"
    updates: int = 100_000

    @property
    def method(self) -> str:
        """What the method is called, as the columns of the paper's table are."""
        return f"{self.negative_phase.upper()}_{self.gibbs_steps}"

    def run(self, visible: int) -> SmallRun:
        """The settings of its runs: five hidden units for each visible one, momentum, all states or batches.

        Args:
            visible: number of visible units of the problem.
        """
        return SmallRun(
            problem=self.problem,
            negative_phase=self.negative_phase,
            gibbs_steps=self.gibbs_steps,
            hidden=HIDDEN_MULTIPLE * visible,
            learning_rate=self.learning_rate,
            variance=self.variance,
            schedule=self.schedule,
            momentum=paper.MOMENTUM,
            updates=self.updates,
            batch_size=paper.BATCH_SIZE if self.problem in paper.BATCHED else 0,
        )


# Balanced weights want small initial weights, parity somewhat larger ones to leave the uniform model. In batches there
# is noise left, which a falling rate takes out.
_BALANCED = (
    Recipe("BS09", 0.0003),
    Recipe("BS16", 0.0003),
    Recipe("LSE11", 0.002),
    Recipe("LSE15", 0.005),
    Recipe("P08", 0.002, variance=0.1),
    Recipe("P10", 0.03, variance=1.0, learning_rate=0.03, schedule="linear"),
    Recipe("Int12", 0.0005, schedule="linear"),
)
# Where every state has a probability, the examples themselves are weighted, and nothing is drawn.
_EXAMPLES_WEIGHTED = tuple(
    Recipe(problem, goal, "wcd", 0, variance=0.3, schedule="linear", updates=500_000)
    for problem, goal in (("Mult3G", 0.004), ("Mult3D", 0.002), ("Int12", 0.0002))
)


class WeightsProtocol(NamedTuple):
    """Weights that are right, on the small problems.

    Attributes:
        recipes: what is trained.
        seeds: number of runs of each.
        seed: of the runs. The recipe was found with others.
        evaluations: how often the KL is computed along a run.
    """

    recipes: tuple[Recipe, ...] = (*_BALANCED, *_EXAMPLES_WEIGHTED)
    seeds: int = 5
    seed: int = 100
    evaluations: int = 200


class Timing(NamedTuple):
    """How the cost of an update is measured: rounds in which each method makes some updates."""

    rounds: int = 15
    updates: int = 200


class EqualTimeProtocol(NamedTuple):
    """All methods on one set of images, each with as many updates as fit into the same time.

    Hidden units, batches, momentum and decay are those of `trainers.settings.image_protocol.ImageProtocol`.

    Attributes:
        data: name of the set of images.
        reference: the method whose epochs make the time.
        methods: what is compared, the reference among it.
        epochs: how many of them.
        rates: learning rates.
        seeds: of the initial weights and of training.
        timing: how costs are measured.
        temperatures: of the annealing that evaluates a model.
        evaluation_seed: of this annealing.
    """

    data: str = "ocr_letters"
    reference: ImageMethod = ImageMethod("CD")
    methods: tuple[ImageMethod, ...] = (
        ImageMethod("CD"),
        ImageMethod("WCD"),
        ImageMethod("BCD"),
        ImageMethod("BCD", minimum_ess=0.5),
        ImageMethod("PCD"),
        ImageMethod("WPCD"),
        ImageMethod("JPCD"),
        ImageMethod("JPCD", minimum_ess=0.5),
    )
    epochs: int = 20
    rates: tuple[float, ...] = (0.03, 0.1, 0.3)
    seeds: tuple[int, ...] = (100, 101, 102)
    timing: Timing = Timing()
    temperatures: int = 5000
    evaluation_seed: int = 11
