"""The columns of the table: the paper's, and beside them weights that the paper does not have.

All take over the parameters of an unweighted method, as the paper's weighted ones do, and are run with parameters
chosen for themselves as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainers.settings import paper
from trainers.settings.paper import Method

# By name of ours, the column of the paper that it stands beside.
BESIDE: Mapping[str, str] = MappingProxyType({"BCD_1": "WCD_1", "BCD_10": "WCD_10", "JPCD": "WPCD", "WCD_0": "WCD_1"})

OURS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("BCD_1", "bcd", 1, "CD_1"),
            Method("BCD_10", "bcd", 10, "CD_10"),
            Method("JPCD", "jpcd", 1, "PCD"),
            Method("WCD_0", "wcd", 0, "CD_1"),
        )
    }
)
# Those whose weights are right for any target; WCD_0 is for targets with all states listed alone.
CONSISTENT = ("BCD_1", "BCD_10", "JPCD")

COLUMNS: Mapping[str, Method] = MappingProxyType({**paper.METHODS, **OURS})


def has_parameters_of_its_own(problem: str, method: Method) -> bool:
    """Whether parameters are chosen for a column itself: weighted ones, and WCD_0 only where it is right.

    Example:

    >>> has_parameters_of_its_own("BS09", COLUMNS["WCD_0"]), has_parameters_of_its_own("Int12", COLUMNS["WCD_0"])
    (False, True)
    """
    return method.weighted and (method.name != "WCD_0" or problem in paper.BATCHED)
