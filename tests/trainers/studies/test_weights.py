"""The recipe for balanced weights: what it is, that it runs and resumes, and that it is better than the paper."""

import pytest

from tests.support.mnist import ROOT
from trainers.settings import paper
from trainers.settings.protocol import PAPER, SHORT
from trainers.settings.runs import SmallRun
from trainers.settings.weights_protocol import Recipe
from trainers.studies import weights
from trainers.studies.work import Work


def test_the_recipes_cover_all_problems_and_are_one_recipe():
    recipes = PAPER.weights.recipes
    assert {recipe.problem for recipe in recipes} == set(paper.PROBLEMS)
    assert len({(recipe.problem, recipe.method) for recipe in recipes}) == len(recipes)
    for recipe in recipes:
        assert recipe.goal < min(paper.TABLE[recipe.problem, name][0] for name in paper.METHODS)
        run = recipe.run(visible=7)
        assert (run.hidden, run.momentum) == (35, 0.9)
        assert run.batch_size == (100 if recipe.problem in paper.BATCHED else 0)
    full_batch = {r._replace(problem="", goal=0) for r in recipes if r.problem in ("BS09", "BS16", "LSE11", "LSE15")}
    assert full_batch == {Recipe("", 0)}


def test_recipes_run_once_and_only_on_the_problems_asked_for(tmp_path):
    work = Work(tmp_path, ("Int12",), protocol=SHORT, verbose=False)
    assert weights.run(work, deadline=0.0) == 2
    assert weights.run(work) == 0
    files = sorted((tmp_path / "small" / "weights").iterdir())
    assert [path.name for path in files] == ["Int12-BCD_1.jsonl", "Int12-WCD_0.jsonl"]
    for recipe in SHORT.weights.recipes:
        if recipe.problem in work.problems:
            records = weights.records_of(recipe, work.small).read()
            assert [record["member"] for record in records] == [0, 1]
            assert SmallRun.from_record(records[0]) == recipe.run(12)
            assert records[0]["seed"] == 100
            assert records[0]["min_kl"] != records[1]["min_kl"]
    before = [path.read_text() for path in files]
    assert weights.run(work) == 0
    assert [path.read_text() for path in files] == before, "nothing runs again"


@pytest.mark.xla
def test_a_fifth_of_the_recipe_is_below_the_papers_best_on_bars_and_stripes(tmp_path):
    short = tuple(recipe._replace(updates=20_000) for recipe in PAPER.weights.recipes)
    protocol = PAPER._replace(weights=PAPER.weights._replace(recipes=short, seed=7, seeds=3, evaluations=5))
    work = Work(tmp_path, ("BS09",), protocol=protocol, verbose=False)
    assert weights.run(work) == 0
    for record in weights.records_of(short[0], work.small).read():
        assert record["min_kl"] < min(paper.TABLE["BS09", method][0] for method in paper.METHODS)
        assert record["final_kl"] <= 2 * record["min_kl"]


def test_the_records_of_the_repository_are_those_of_the_protocol():
    work = Work(ROOT / "trainers" / "results")
    assert weights.run(work, deadline=0.0) == 0, "what has been run is not run again"
    for recipe in PAPER.weights.recipes:
        records = weights.records_of(recipe, work.small).read()
        assert len(records) == PAPER.weights.seeds
        wanted = recipe.run(records[0]["hidden"] // 5)
        assert {SmallRun.from_record(record) for record in records} == {wanted}
        assert {record["seed"] for record in records} == {PAPER.weights.seed}
