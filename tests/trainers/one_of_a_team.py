"""A cell of the table in a short form, by one process or by one of a team.

python -m tests.trainers.one_of_a_team FOLDER [tuner]
"""

import sys
from pathlib import Path

from trainers import reproduce, selection, table


def main(folder, tuner=""):
    table.effort_of = lambda problem, method: table.Effort(320, 3)
    table.LOOKS = 8
    grid = selection.Grid((1, 2), (0.1,), (0.03, 0.001), ("linear", "constant"), (0.9,))
    selection.default_grid = lambda method: grid
    selection.HALVING = (selection.Rung(0.25, None), selection.Rung(1.0, 3))
    selection.HALVING_OF_WEIGHTED = (selection.Rung(0.25, None, 2), selection.Rung(1.0, 3, 2))
    work = reproduce.Work(Path(folder), ["BS09"], ["CD_1", "WCD_1"], tuner=bool(tuner))
    return reproduce.run(["table"], work, jobs=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
