"""How parameters are chosen: the rounds of successive halving, with training that is only pretended."""

import numpy as np
import pytest

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.grids import FULL, RULE, Grid
from trainers.settings.protocol import PAPER
from trainers.studies.selection import select
from trainers.studies.work import Work


def pretended(kl):
    """Stands for training: the KL of a run is a function of it and of how often its length was trained before.

    Returns what "trains", and a list of the seeds and runs that it is asked for.
    """
    seen = []

    def train(runs, keep, training, known):
        have = known()
        new = [run for run in runs if run not in have]
        before = sum(bool(others) and bool(new) and others[0].updates == new[0].updates for _, others in seen)
        seen.append((training.seed, new))
        rest = {"seed": training.seed, "final_kl": 1.0, "seconds": 0.0, "date": ""}
        keep([{**run.as_dict(), "min_kl": kl(run, before), **rest} for run in new])

    return train, seen


def distance_from(best):
    """A KL that is the distance from the best rate, and shrinks with the length of the run."""
    return lambda run, _: None if run.learning_rate == 0.1 else abs(np.log(run.learning_rate / best)) + 1 / run.updates


def test_halving_keeps_the_better_settings_and_resumes(tmp_path):
    method, work = paper.METHODS["CD_1"], Work(tmp_path)
    train, seen = pretended(distance_from(0.003))
    chosen = select("BS09", method, 16_000, work, train)
    assert chosen.learning_rate == 0.003
    assert chosen.updates == 16_000
    grid = RULE.grid.runs("BS09", 9, method, 16_000)
    assert [len(runs) for _, runs in seen] == [len(grid), 6, 6, 2, 2, 2]
    assert [runs[0].updates for _, runs in seen] == [1000, 4000, 4000, 16_000, 16_000, 16_000]
    assert len({seed for seed, _ in seen}) == 6, "each time with another seed"
    # What goes on does so with its rate, and with one that is smaller by the square root of how much longer the run is.
    assert {run.learning_rate for run in seen[1][1]} == {0.003, 0.0015}
    assert [run.learning_rate for run in seen[3][1]] == [0.003, 0.0015]
    # All runs are in the records: nothing is trained again.
    train, seen = pretended(distance_from(0.001))
    assert select("BS09", method, 16_000, work, train) == chosen
    assert not any(runs for _, runs in seen)


@pytest.mark.parametrize("name", ["CD_1", "WCD_10", "JPCD"])
def test_settings_are_judged_by_the_mean_of_several_seeds(tmp_path, name):
    """The rate that is best with the first seed of a round fails with the second one, whatever the method."""

    def kl(run, before):
        if before and run.learning_rate == 0.03:
            return 0.5
        return abs(run.learning_rate - 0.03)

    train, _ = pretended(kl)
    chosen = select("BS09", COLUMNS[name], 16_000, Work(tmp_path), train)
    assert chosen.learning_rate == 0.015, "the other form of the best rate"
    assert chosen.updates == 16_000
    assert (tmp_path / "small" / "selection" / f"BS09-{name}-{RULE.version}.jsonl").exists()


def test_decay_falls_by_the_square_root_of_the_length(tmp_path):
    grid = Grid((1,), (1.0,), (0.1,), ("linear",), (0.9,), (0.001,))
    protocol = PAPER._replace(selection=PAPER.selection._replace(rule=RULE._replace(grid=grid)))
    train, seen = pretended(lambda run, _: run.learning_rate)
    chosen = select("BS09", paper.METHODS["WCD_10"], 16_000, Work(tmp_path, protocol=protocol), train)
    assert [runs[0].weight_decay for _, runs in seen] == [0.001, 0.0005, 0.0005, 0.00025, 0.00025, 0.00025]
    assert (chosen.learning_rate, chosen.weight_decay) == (0.025, 0.00025)


def test_full_grid_is_the_papers(tmp_path):
    train, seen = pretended(distance_from(0.001))
    chosen = select("BS09", paper.METHODS["CD_1"], 100, Work(tmp_path, full=True), train)
    assert len(seen[0][1]) == 5 * 5 * 5 * 2
    assert chosen.learning_rate == 0.001
    assert len(FULL["WPCD"].grid.runs("BS09", 9, paper.METHODS["WPCD"], 100)) == 5 * 8 * 2 * 2
