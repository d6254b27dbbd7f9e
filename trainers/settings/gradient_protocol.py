"""What the study of gradients does: which methods, on which problems, and at how many moments of their training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class GradientProtocol(NamedTuple):
    """Bias, noise and direction of each method's own steps along its own training.

    Attributes:
        problems: small problems.
        methods: columns of the table, with the parameters of the unweighted method that they take there.
        moments: how many moments of a training are looked at, evenly on a logarithmic axis.
        first: number of updates before the first of them.
        repetitions: steps that are drawn at each.
        seed: of the trainings and of the draws.
    """

    problems: tuple[str, ...] = ("BS16", "P08", "Int12")
    methods: tuple[str, ...] = ("CD_1", "WCD_1", "BCD_1", "PCD", "WPCD", "JPCD")
    moments: int = 12
    first: int = 100
    repetitions: int = 400
    seed: int = 400

    def updates(self, length: int) -> list[int]:
        """The numbers of updates after which a training of this length is looked at.

        Example:

        >>> GradientProtocol(moments=3).updates(10_000)
        [100, 1000, 10000]
        """
        return [round(at) for at in np.geomspace(min(self.first, length), length, self.moments)]
