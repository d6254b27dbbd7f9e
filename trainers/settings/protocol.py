"""The protocol of a reproduction: how long runs are, how many, and what is searched; the paper's, and a short one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings import grids, paper
from trainers.settings.columns import COLUMNS
from trainers.settings.gradient_protocol import GradientProtocol
from trainers.settings.grids import Grid, Rule, Rung
from trainers.settings.image_protocol import IMAGE_SETS, Evaluation, ImageProtocol
from trainers.settings.record_protocol import Annealing, RecordProtocol
from trainers.settings.weights_protocol import EqualTimeProtocol, Timing, WeightsProtocol


class Effort(NamedTuple):
    """How long the runs of a cell are, and how many."""

    updates: int
    seeds: int


# Updates of a run with one Gibbs step, with ten, and the number of seeds of each: with the selection about eight hours
# on two cores.
_EFFORTS = {
    "BS09": (Effort(300_000, 10), Effort(150_000, 10)),
    "BS16": (Effort(300_000, 10), Effort(100_000, 10)),
    "LSE11": (Effort(300_000, 10), Effort(100_000, 10)),
    "LSE15": (Effort(150_000, 5), Effort(60_000, 5)),
    "P08": (Effort(200_000, 10), Effort(100_000, 10)),
    "P10": (Effort(100_000, 5), Effort(50_000, 5)),
    "Int12": (Effort(300_000, 5), Effort(100_000, 5)),
    "Mult3G": (Effort(300_000, 5), Effort(100_000, 5)),
    "Mult3D": (Effort(300_000, 5), Effort(100_000, 5)),
}
# With parameters chosen for themselves at the length above, some go on improving, and two of CD_10 need the paper's
# number of updates. (It makes a million, and four million in batches.)
_LONGER_WITH_OWN_PARAMETERS = {
    ("BS09", "CD_10"): Effort(1_000_000, 10),
    ("BS16", "CD_10"): Effort(1_000_000, 10),
    ("LSE11", "WPCD"): Effort(1_000_000, 10),
    ("LSE15", "WPCD"): Effort(500_000, 3),
    ("P10", "WPCD"): Effort(300_000, 3),
    ("Int12", "WCD_1"): Effort(1_000_000, 5),
    ("Mult3G", "WCD_1"): Effort(2_000_000, 3),
    ("Mult3G", "WCD_10"): Effort(500_000, 3),
    ("Mult3D", "WCD_1"): Effort(1_000_000, 5),
    ("Mult3D", "WCD_10"): Effort(1_000_000, 3),
}


class TableProtocol(NamedTuple):
    """The table: minimum KL of six methods on nine problems.

    Attributes:
        efforts: by problem, length and number of the runs with one Gibbs step, and with more.
        longer: by problem and method, the same for cells whose parameters were chosen for themselves in shorter runs.
        seed: of the runs.
        evaluations: how often the KL is computed along a run.
    """

    efforts: Mapping[str, tuple[Effort, Effort]] = MappingProxyType(_EFFORTS)
    longer: Mapping[tuple[str, str], Effort] = MappingProxyType(_LONGER_WITH_OWN_PARAMETERS)
    seed: int = 100
    evaluations: int = 400

    def effort(self, problem: str, method: paper.Method) -> Effort:
        """Length and number of the runs of a cell."""
        return self.efforts[problem][method.gibbs_steps > 1]


class SelectionProtocol(NamedTuple):
    """How parameters are chosen.

    Attributes:
        rule: that of all methods.
        full: by method, the one of ``--full_grid``.
        seed: of the first round; each later one has its own.
        evaluations: how often the KL is computed along a run.
    """

    rule: Rule = grids.RULE
    full: Mapping[str, Rule] = grids.FULL
    seed: int = 7
    evaluations: int = 40


class BestProtocol(NamedTuple):
    """The lowest KL with any method: the exact gradient.

    Attributes:
        updates: by number of visible units; an update enumerates all visible states, so larger spaces get fewer.
        learning_rates: to try.
        variances: to try.
        seed: of the runs.
        evaluations: how often the KL is computed along a run.
    """

    updates: Mapping[int, int] = MappingProxyType(
        {8: 20_000, 9: 20_000, 10: 20_000, 11: 20_000, 12: 10_000, 15: 3_000, 16: 2_000}
    )
    learning_rates: tuple[float, ...] = (0.3, 0.1, 0.03)
    variances: tuple[float, ...] = (1.0, 0.1)
    seed: int = 300
    evaluations: int = 100


class GeneralisationProtocol(NamedTuple):
    """Training on a part of the states.

    Attributes:
        fractions: parts to train on.
        methods: columns of the table.
        seeds: number of runs.
        seed: of the runs.
        evaluations: how often the KL is computed along a run.
    """

    fractions: tuple[float, ...] = (1.0, 0.8, 0.6, 0.4, 0.2)
    methods: tuple[str, ...] = ("CD_1", "WCD_1", "BCD_1")
    seeds: int = 3
    seed: int = 200
    evaluations: int = 200


class Protocol(NamedTuple):
    """All that defines a reproduction; each study takes its part of it."""

    name: str
    table: TableProtocol = TableProtocol()
    selection: SelectionProtocol = SelectionProtocol()
    best: BestProtocol = BestProtocol()
    generalisation: GeneralisationProtocol = GeneralisationProtocol()
    images: ImageProtocol = ImageProtocol()
    weights: WeightsProtocol = WeightsProtocol()
    equal_time: EqualTimeProtocol = EqualTimeProtocol()
    records: RecordProtocol = RecordProtocol()
    gradients: GradientProtocol = GradientProtocol()


PAPER = Protocol("paper")

_SHORT_RULE = Rule(
    "short",
    Grid((1, 2), (0.1,), (0.03, 0.001), ("linear", "constant"), (paper.MOMENTUM,)),
    (Rung(0.25, None, 2), Rung(1.0, 3, 2)),
    (0.0, 0.5),
)
# The same work in miniature, to see that it runs; its figures mean nothing.
SHORT = Protocol(
    "short",
    TableProtocol(
        efforts=MappingProxyType({name: (Effort(320, 3), Effort(320, 3)) for name in _EFFORTS}),
        longer=MappingProxyType({}),
        evaluations=8,
    ),
    SelectionProtocol(rule=_SHORT_RULE, full=MappingProxyType(dict.fromkeys(COLUMNS, _SHORT_RULE))),
    BestProtocol(updates=MappingProxyType(dict.fromkeys(range(8, 17), 600)), evaluations=60),
    GeneralisationProtocol(seeds=2, evaluations=4),
    ImageProtocol(
        sets=MappingProxyType(
            {
                name: images._replace(epochs=2, mesh_epochs=(1,), seeds=images.seeds[:1])
                for name, images in IMAGE_SETS.items()
            }
        ),
        mesh=(0.01, 0.1),
        hidden=6,
        evaluation=Evaluation(
            counts=(100, 1000), chains=100, temperatures=50, burn_in=10, annealing=Annealing(budget=100)
        ),
    ),
    WeightsProtocol(
        recipes=tuple(recipe._replace(updates=320) for recipe in PAPER.weights.recipes), seeds=2, evaluations=8
    ),
    EqualTimeProtocol(epochs=1, rates=(0.1,), seeds=(0, 1), timing=Timing(2, 10), temperatures=100),
    RecordProtocol(
        runs=MappingProxyType(
            {name: dataclasses.replace(run, epochs=2, hidden=6) for name, run in PAPER.records.runs.items()}
        ),
        deep_runs=MappingProxyType(
            {name: dataclasses.replace(run, epochs=2) for name, run in PAPER.records.deep_runs.items()}
        ),
        annealing=Annealing(budget=200),
    ),
    GradientProtocol(problems=("P08",), methods=("CD_1", "PCD"), moments=3, first=10, repetitions=20),
)

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({protocol.name: protocol for protocol in (PAPER, SHORT)})
