"""What the paper says: its problems, its settings and its figures.

Romero, Mazzanti, Delgado and Buchaca, "Weighted Contrastive Divergence". KL is in nats; each figure is the minimum
along a run, its mean and standard deviation over 10 seeds.
"""

from __future__ import annotations

from typing import NamedTuple

# Problems trained in batches of 100 states; the others take all states at each update.
BATCHED = ("Int12", "Mult3G", "Mult3D")
BATCH_SIZE = 100
MOMENTUM = 0.9
HIDDEN_MULTIPLES = (1, 2, 3, 4, 5)
VARIANCES = (1.0, 0.1, 0.01, 0.001, 0.0001)
LEARNING_RATES = (0.1, 0.01, 0.001, 0.0001, 0.00001)
PERSISTENT_LEARNING_RATES = (*LEARNING_RATES, 1e-6, 1e-7, 1e-8)


class Method(NamedTuple):
    """A column of the table."""

    name: str
    negative_phase: str
    gibbs_steps: int
    # The unweighted method whose parameters the paper takes over.
    parameters_of: str

    @property
    def weighted(self) -> bool:
        """Whether its negative phase is weighted."""
        return self.parameters_of != self.name

    @property
    def persistent(self) -> bool:
        """Whether its chains go on from update to update."""
        return "pcd" in self.negative_phase


METHODS = {
    method.name: method
    for method in (
        Method("CD_1", "cd", 1, "CD_1"),
        Method("CD_10", "cd", 10, "CD_10"),
        Method("PCD", "pcd", 1, "PCD"),
        Method("WCD_1", "wcd", 1, "CD_1"),
        Method("WCD_10", "wcd", 10, "CD_10"),
        Method("WPCD", "wpcd", 1, "PCD"),
    )
}

# Mean and standard deviation of the minimum KL, in the order of `METHODS`.
_TABLE = """
BS09   0.0450 0.0206  0.0035 0.0013  0.0962 0.0052  0.0011 0.0001  0.0011 0.0001  0.0464 0.0088
BS16   0.1657 0.0578  0.0212 0.0077  0.1850 0.0062  0.0008 0.0001  0.0007 0.0001  0.1060 0.0141
LSE11  0.2986 0.0641  0.0634 0.0274  0.1918 0.0172  0.1043 0.0363  0.0113 0.0024  0.1050 0.0070
LSE15  0.7767 0.0913  0.2194 0.0441  0.2379 0.0136  0.3558 0.0888  0.0233 0.0021  0.1822 0.0071
P08    0.6464 0.0858  0.1530 0.0435  0.2681 0.0591  0.6535 0.0791  0.0201 0.0043  0.1515 0.0189
P10    0.6933 0.0001  0.3062 0.0169  0.1810 0.0456  0.6937 0.0019  0.0681 0.0232  0.1638 0.0313
Int12  0.0221 0.0262  0.0007 0.0014  0.0220 0.0003  0.0022 0.0034  0.0021 0.0025  0.0220 0.0003
Mult3G 0.5453 0.0001  0.0220 0.0009  0.1778 0.0336  0.0041 0.0009  0.0064 0.0012  0.1960 0.0948
Mult3D 0.4246 0.0001  0.3120 0.1113  0.1958 0.0250  0.0036 0.0007  0.0052 0.0013  0.2025 0.0206
"""

_ROWS = {name: [float(figure) for figure in figures] for name, *figures in map(str.split, _TABLE.strip().splitlines())}
PROBLEMS = tuple(_ROWS)
TABLE = {
    (problem, method): (row[2 * i], row[2 * i + 1])
    for problem, row in _ROWS.items()
    for i, method in enumerate(METHODS)
}
