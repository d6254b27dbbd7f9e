"""What the report says of the recipe for balanced weights, from records that are made up."""

from trainers.report.small_sections import best_section
from trainers.report.weights_figures import equal_time_figure, weights_figure
from trainers.report.weights_sections import recipe_results, weights_section
from trainers.settings.protocol import PAPER
from trainers.studies.weights import records_of

RECIPES = {(recipe.problem, recipe.method): recipe for recipe in PAPER.weights.recipes}


def keep(folder, problem, method, minima, last):
    recipe = RECIPES[problem, method]
    settings = recipe.run(9).as_dict()
    curve = [[0, 1.0], [500, 0.2], [700, 0.5], [800, None], [1000, 0.0]]
    for lowest, final in zip(minima, last, strict=True):
        records_of(recipe, folder).append({**settings, "min_kl": lowest, "final_kl": final, "curve": curve})


def test_the_table_has_means_and_what_is_met(tmp_path):
    keep(tmp_path, "BS09", "BCD_1", (1e-4, 3e-4), (1e-4, 3e-4))
    keep(tmp_path, "BS16", "BCD_1", (1e-4, 1e-4), (1e-4, 3e-4))  # got worse again
    keep(tmp_path, "Int12", "BCD_1", (4e-4, 8e-4), (4e-4, 8e-4))  # above its goal, below the paper
    keep(tmp_path, "Int12", "WCD_0", (1e-4, 1e-4), (1e-4, None))  # diverged in the end
    met = [result.met for result in recipe_results(tmp_path, PAPER.weights)]
    assert met == [True, False, False, False]
    lines = weights_section(tmp_path, PAPER.weights)
    assert any(
        line.endswith("| **0.0002** (0.0001) ✓ | 1.00 | 50 % | 0.0003: met | 0.0011 (WCD_1) |") for line in lines
    )
    assert lines[-1] == "\nBelow the paper's best, in the mean, on 3 of 3 problems.\n"


def test_the_recipe_counts_among_the_best(tmp_path):
    keep(tmp_path, "BS09", "BCD_1", (1e-4, 3e-4), (1e-4, 3e-4))
    lines = best_section(tmp_path, PAPER.weights)
    assert any("| 0.0001 | BCD_1, the recipe | 0.0002 | BCD_1, the recipe | 0.0011 | yes | yes |" in x for x in lines)


def test_figures_need_records(tmp_path):
    assert weights_figure(tmp_path, PAPER.weights) is None
    assert equal_time_figure(tmp_path, PAPER.equal_time) is None
    keep(tmp_path, "BS09", "BCD_1", (1e-4, 3e-4), (1e-4, 3e-4))
    keep(tmp_path, "Int12", "WCD_0", (1e-4, 3e-4), (1e-4, 3e-4))
    figure = weights_figure(tmp_path, PAPER.weights)
    assert [axes.get_title() for axes in figure.axes] == ["BS09", "Int12"]
    # A line for each seed, and the paper's best.
    assert [len(axes.lines) for axes in figure.axes] == [3, 3]
