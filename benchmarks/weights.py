"""What weights and tempering cost: an update of each such negative phase over one of its plain form.

``python -m benchmarks.weights`` measures both parts, ``python -m benchmarks.weights BS09`` one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tf_wcd
from benchmarks.timing import interleaved, part_row, row
from benchmarks.training import fitting, mnist_sized
from tf_wcd.negative_phases import BCD, CD, JPCD, PCD, PT, PTT, WCD, WPCD, NegativePhase


class Form(NamedTuple):
    """A phase and its plain form, by their names in `PHASES`, and the largest ratio aimed at, if any."""

    weighted: str
    plain: str
    most: float | None = None


PHASES: dict[str, NegativePhase] = {
    "CD_1": CD(),
    "WCD_1": WCD(),
    "BCD_1": BCD(),
    "BCD_1, visible side": BCD(side="visible"),
    "PCD_1": PCD(),
    "WPCD_1": WPCD(),
    "JPCD_1, no observers": JPCD(observers=0),
    "JPCD_1, no observers, ESS held": JPCD(observers=0, minimum_ess=0.5),
    "JPCD_1, 100 observers": JPCD(observers=100),
    "PTT_1": PTT(),
    "PT_1": PT(),
}
LARGE = (
    Form("WCD_1", "CD_1", 1.05),
    Form("BCD_1", "CD_1", 1.10),
    Form("BCD_1, visible side", "CD_1"),
    Form("WPCD_1", "PCD_1", 1.05),
    Form("JPCD_1, no observers", "PCD_1"),
    Form("JPCD_1, no observers, ESS held", "PCD_1"),
    Form("JPCD_1, 100 observers", "PCD_1"),
    Form("PTT_1", "PCD_1", 3.0),
    Form("PT_1", "PCD_1"),
)
SMALL = (
    Form("WCD_1", "CD_1"),
    Form("BCD_1", "CD_1", 1.25),
    Form("BCD_1, visible side", "CD_1"),
    Form("WPCD_1", "PCD_1"),
    Form("JPCD_1, no observers", "PCD_1"),
    Form("JPCD_1, no observers, ESS held", "PCD_1"),
    Form("JPCD_1, 100 observers", "PCD_1"),
)


def rows_of(work: str, forms: tuple[Form, ...], cases: dict[str, Any], repetitions: int) -> list[dict]:
    """The lines of the table: all cases timed in turn, each weighted one over its plain form."""
    times = interleaved(cases, repetitions)
    rows = []
    for form in forms:
        ours, other = times[form.weighted], times[form.plain]
        name = f"{work}, {form.weighted}"
        if form.most is None:
            rows.append(part_row(name, ours, form.plain, other))
        else:
            rows.append(row(name, ours, form.plain, other, form.most, at_most=True))
    return rows


def large_layer(updates: int = 60, repetitions: int = 7) -> list[dict]:
    """784 x 500 units, batches of 100."""
    x = mnist_sized()
    cases = {name: fitting(x, 500, phase, None, updates, 100, calls=3) for name, phase in PHASES.items()}
    return rows_of("784 x 500, batch 100", LARGE, cases, repetitions)


def small_problem(updates: int = 2000, repetitions: int = 11) -> list[dict]:
    """Bars and Stripes, 3 x 3: all 14 patterns at each update, 45 hidden units, spins."""
    x = 2 * tf_wcd.datasets.load("BS09")[0] - 1
    spins = {"visible_type": "spin", "hidden_type": "spin"}
    cases = {name: fitting(x, 45, phase, None, updates, len(x), calls=5, **spins) for name, phase in PHASES.items()}
    return rows_of("BS09, 45 hidden, batch 14, spins", SMALL, cases, repetitions)


PARTS = {"large_layer": large_layer, "BS09": small_problem}


if __name__ == "__main__":
    import sys

    from benchmarks.report import main

    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"A part is one of {', '.join(PARTS)}. Received: {', '.join(sorted(unknown))}")
    main("weights", lambda: [row for part in chosen for row in PARTS[part]()])
