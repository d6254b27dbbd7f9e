"""The report: what it counts and draws, from records that are made up and from those of the repository."""

import shutil

import numpy as np
import pytest

import tf_wcd
from tests.support.mnist import ROOT
from trainers.report import figures
from trainers.report.write import write_report
from trainers.settings import paper
from trainers.settings.runs import SmallRun
from trainers.store.records import Records


def fill(folder, value):
    """Records as a finished table would have, with the paper's own figures times a value."""
    for (problem, name), (mean, _) in paper.TABLE.items():
        method = paper.METHODS[name]
        visible = tf_wcd.datasets.load(problem)[0].shape[1]
        settings = SmallRun(problem, method.negative_phase, method.gibbs_steps, visible, 0.01, 0.1, "linear", 0.9, 1000)
        for parameters in ("paper", "own") if method.weighted else ("paper",):
            for seed in range(2):
                kl = value * mean * (1 + 0.01 * seed)
                record = {
                    **settings.as_dict(),
                    "min_kl": kl,
                    "final_kl": kl,
                    "seconds": 1.0,
                    "curve": [[0, 1.0], [1000, kl]],
                }
                Records(folder / "table" / f"{problem}-{name}-{parameters}.jsonl").append(record)
            (folder / "distributions").mkdir(exist_ok=True)
            count = len(tf_wcd.datasets.load(problem)[1])
            path = folder / "distributions" / f"{problem}-{name}-{parameters}.npz"
            np.savez_compressed(path, log_probabilities=np.full(count, -np.log(count), "float32"))


@pytest.mark.parametrize(("value", "unweighted", "lower"), [(0.99, 27, 9), (10, 0, 0)])
def test_report_counts_what_reaches_the_paper(tmp_path, value, unweighted, lower):
    fill(tmp_path / "small", value)
    text = write_report(tmp_path).read_text()
    assert f"- Cells that reach the bar, unweighted: {unweighted} of 27" in text
    expected = sum(
        value * mean * 1.005 <= mean + 2 * deviation
        for (_, name), (mean, deviation) in paper.TABLE.items()
        if paper.METHODS[name].weighted
    )
    assert f"- Cells that reach the bar, weighted: {expected} of 27" in text
    assert f"Lower in {lower} of 9" in text
    assert "Weights that the paper does not have" not in text
    details = (tmp_path / "DETAILS.md").read_text()
    for problem in figures.PROBLEMS:
        assert f"![{problem}-k1](figures/{problem}-k1.png)" in details
        assert (tmp_path / "figures" / f"{problem}-k1.png").stat().st_size > 10_000


def test_a_figure_needs_the_papers_cells_but_not_our_own(tmp_path):
    fill(tmp_path, 1.0)
    lines = [len(figures.training_figure(tmp_path, "P10", 10).axes[0].lines)]
    (tmp_path / "table" / "P10-WCD_10-own.jsonl").unlink()
    lines.append(len(figures.training_figure(tmp_path, "P10", 10).axes[0].lines))
    assert lines[0] == lines[1] + 1
    (tmp_path / "table" / "P10-WCD_10-paper.jsonl").unlink()
    assert figures.training_figure(tmp_path, "P10", 10) is None


def test_report_of_nothing_says_so(tmp_path):
    assert write_report(tmp_path).read_text().count("not run") >= 54


def test_the_records_of_the_repository_give_its_report(tmp_path):
    results = ROOT / "trainers" / "results"
    folder = tmp_path / "results"
    shutil.copytree(results, folder, ignore=shutil.ignore_patterns("REPORT.md", "DETAILS.md", "dbn", "checkpoints"))
    drawn = {path.name for path in (folder / "figures").iterdir()}
    shutil.rmtree(folder / "figures")
    assert write_report(folder).read_text() == (results / "REPORT.md").read_text()
    assert (folder / "DETAILS.md").read_text() == (results / "DETAILS.md").read_text()
    assert {path.name for path in (folder / "figures").iterdir()} == drawn


def test_columns_of_ours_are_counted_against_the_paper_and_against_other_weights(tmp_path):
    fill(tmp_path / "small", 1.0)
    for problem, name, kl in (("BS09", "BCD_1", 0.0005), ("BS09", "BCD_10", 0.003), ("P08", "JPCD", 9.0)):
        settings = SmallRun(problem, name.split("_")[0].lower(), 1, 9, 0.01, 0.1, "linear", 0.9, 1000)
        for seed in range(2):
            found = {"min_kl": kl * (1 + 0.01 * seed), "seconds": 1.0, "curve": [[0, 1.0], [1000, kl]]}
            record = {**settings.as_dict(), **found}
            Records(tmp_path / "small" / "table" / f"{problem}-{name}-paper.jsonl").append(record)
    text = write_report(tmp_path).read_text()
    assert "| **0.0005** (3.5e-06) ✓<br>0.0011 (0.0001) | **0.0030** (2.1e-05)<br>0.0011 (0.0001) | not run" in text
    assert "that reach the paper's weighted forms: 1 of 3 (not BS09 BCD_10, P08 JPCD)" in text
    assert "with those same parameters: 1 of 3 cells of BCD_1, BCD_10 and JPCD" in text
    assert "![findings](figures/findings.png)" in text
    assert "BCD_k better than CD_k with the same parameters: 2 of 2" in text
    assert "BCD_k better than WCD_k with the same parameters: 1 of 2 (not BS09 BCD_10 0.0030 against 0.0011)" in text
