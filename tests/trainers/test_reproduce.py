"""The paper's experiments from end to end, in miniature."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest
from trainers.records import Records

import tf_wcd
from trainers import (
    best,
    figures,
    generalisation,
    image_evaluation,
    large_sets,
    one_run,
    paper,
    report,
    reproduce,
    selection,
    table,
)
from trainers.settings import Settings


@pytest.fixture
def miniature(monkeypatch):
    """Everything short: the same code, few updates."""
    monkeypatch.setattr(table, "effort_of", lambda problem, method: table.Effort(160, 2))
    monkeypatch.setattr(generalisation, "effort_of", table.effort_of)
    monkeypatch.setattr(table, "LOOKS", 4)
    monkeypatch.setattr(generalisation, "LOOKS", 4)
    monkeypatch.setattr(generalisation, "SEEDS", 2)
    grid = selection.Grid((1,), (0.1,), (0.01,), ("linear",), (0.9,))
    monkeypatch.setattr(selection, "default_grid", lambda method: grid)


def test_generalisation_measures_the_whole_target(tmp_path, miniature):
    records = generalisation.run_one("Mult3G", paper.METHODS["WCD_1"], 0.2, tmp_path, verbose=False)
    _, probabilities = tf_wcd.datasets.load("Mult3G")
    kept = np.load(tmp_path / "distributions" / "Mult3G-WCD_1-20.npz")
    log_probabilities, held_out = kept["log_probabilities"].astype("float64"), kept["held_out"]
    assert len(held_out) == 4096 - 819
    kl = np.sum(probabilities * (np.log(probabilities) - log_probabilities))
    np.testing.assert_allclose(records[0]["full_kl"], kl, rtol=1e-4)
    np.testing.assert_allclose(records[0]["held_out_mass"], np.exp(log_probabilities[held_out]).sum(), atol=1e-4)
    np.testing.assert_allclose(records[0]["target_mass"], probabilities[held_out].sum(), atol=1e-4)
    train = np.setdiff1d(np.arange(4096), held_out)
    target = probabilities[train] / probabilities[train].sum()
    seen = log_probabilities[train] - np.logaddexp.reduce(log_probabilities[train])
    np.testing.assert_allclose(records[0]["min_kl"], np.sum(target * (np.log(target) - seen)), rtol=1e-3)
    monkey = generalisation.train_group
    generalisation.train_group = None
    try:
        assert generalisation.run_one("Mult3G", paper.METHODS["WCD_1"], 0.2, tmp_path) == records, "nothing runs again"
    finally:
        generalisation.train_group = monkey


@pytest.mark.parametrize(("fraction", "wished", "units"), [(1.0, 60, 60), (0.4, 60, 60), (0.2, 60, 24), (0.2, 12, 12)])
def test_fewer_hidden_units_where_few_states_are_seen(fraction, wished, units):
    assert generalisation.hidden_for("Mult3G", fraction, wished) == units
    assert 12 * units + 12 + units <= fraction * 4096 / 2


@pytest.mark.xla
def test_exact_gradient_beats_the_papers_best_on_bars_and_stripes(tmp_path, monkeypatch):
    monkeypatch.setitem(best.UPDATES, 9, 20_000)
    monkeypatch.setattr(best, "VARIANCES", (1.0,))
    monkeypatch.setattr(best, "LEARNING_RATES", (0.1,))
    monkeypatch.setattr(best, "LOOKS", 5)
    assert best.run_best(tmp_path, ["BS09"], verbose=False) == 0
    (record,) = Records(tmp_path / "best" / "BS09.jsonl").read()
    assert record["min_kl"] < min(paper.TABLE["BS09", method][0] for method in paper.METHODS)


@pytest.fixture
def letters(monkeypatch):
    """Tiny pictures: one of two bars, with noise."""
    rng = np.random.default_rng(0)

    def draw(count):
        x = np.zeros((count, 16, 8), "float32")
        x[np.arange(count), rng.choice([3, 12], count)] = 1
        return np.abs(x.reshape(count, 128) - (rng.random((count, 128)) < 0.02)).astype("float32")

    images = large_sets.Images(draw(300), draw(100), draw(100))
    monkeypatch.setattr(large_sets, "load_images", lambda task: images)
    monkeypatch.setattr(large_sets, "HIDDEN", 6)
    monkeypatch.setattr(large_sets, "MESH", (0.01, 0.1))
    monkeypatch.setattr(image_evaluation, "CURVE_COUNTS", (100, 1000))
    monkeypatch.setattr(image_evaluation, "TEMPERATURES", 300)
    monkeypatch.setattr(
        large_sets, "TASKS", {"ocr_letters": large_sets.ImageTask("ocr_letters", "OCR", "threshold", 30, (4, 8))}
    )
    return images


def test_image_runs_are_chosen_trained_and_evaluated(tmp_path, letters):
    methods = ("WPCD, ESS >= 50%",)
    assert large_sets.run_large_sets(tmp_path, ["ocr_letters"], methods) == 0
    records = Records(tmp_path / "runs.jsonl").read()
    assert [record["settings"]["method"] for record in records] == list(methods)
    chosen = Records(tmp_path / "selection" / "ocr_letters.jsonl").read()
    assert [r["settings"]["epochs"] for r in chosen] == [4, 4, 8, 8], "both rates, then the better ones for longer"
    for record in records:
        mine = {
            r["settings"]["learning_rate"]: r["parzen"]
            for r in chosen
            if r["settings"]["method"] == record["settings"]["method"] and r["settings"]["epochs"] == 8
        }
        assert record["settings"]["learning_rate"] == max(mine, key=mine.get)
        low, high = record["annealed"]["test"]
        assert low - 1 <= record["annealed"]["test_estimate"] <= high + 1
        assert record["parzen"]["values"][1] > record["parzen"]["values"][0] - 5
    assert records[0]["ess"][-1][1] >= 0.5 - 1e-3
    assert len(list((tmp_path / "figures").glob("*.png"))) == 2
    assert large_sets.run_large_sets(tmp_path, ["ocr_letters"], methods) == 0
    assert len(Records(tmp_path / "runs.jsonl").read()) == 1, "nothing runs again"


def test_one_image_run_in_a_new_folder(tmp_path, letters):
    settings = large_sets.ImageSettings("ocr_letters", "PCD", "bernoulli", True, 0.1, 1)
    record = one_run.run_images(settings, tmp_path / "new")
    assert record["settings"]["epochs"] == 1
    kinds = sorted(path.suffix for path in (tmp_path / "new").iterdir() if path.is_file())
    assert kinds == [".jsonl", ".keras", ".png", ".png"]


def fill(folder, value):
    """Records as a finished table would have, with the paper's own figures times a value."""
    for (problem, name), (mean, _) in paper.TABLE.items():
        method = paper.METHODS[name]
        visible = tf_wcd.datasets.load(problem)[0].shape[1]
        settings = Settings(problem, method.negative_phase, method.gibbs_steps, visible, 0.01, 0.1, "linear", 0.9, 1000)
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
    text = report.write_report(tmp_path).read_text()
    assert f"- Cells that reach the bar, unweighted: {unweighted} of 27" in text
    expected = sum(
        value * mean * 1.005 <= mean + 2 * deviation
        for (_, name), (mean, deviation) in paper.TABLE.items()
        if paper.METHODS[name].weighted
    )
    assert f"- Cells that reach the bar, weighted: {expected} of 27" in text
    assert f"Lower in {lower} of 9" in text
    for problem in figures.PROBLEMS:
        assert f"![{problem}-k1](figures/{problem}-k1.png)" in text
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
    assert report.write_report(tmp_path).read_text().count("not run") >= 54


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`--problems` must be among .* Received: BS25"):
        reproduce.run(["table"], reproduce.Work(tmp_path, ["BS25"]))
    with pytest.raises(ValueError, match="`--stage` must be among"):
        reproduce.run(["tables"], reproduce.Work(tmp_path))


class Finished(NamedTuple):
    """Stands for a process that has ended."""

    code: int

    def wait(self):
        return self.code

    def terminate(self):
        pass


def test_processes_that_fail_are_not_taken_for_work_left(tmp_path, monkeypatch, capsys):
    work = reproduce.Work(tmp_path, ["BS09", "BS16"])
    codes = iter((reproduce.WORK_LEFT, 0, 0, 0, reproduce.WORK_LEFT, 1))
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: Finished(next(codes)))
    assert reproduce.run(["best"], work, jobs=2) == 2
    assert "2 pieces of work left" in capsys.readouterr().out
    assert reproduce.run(["best"], work, jobs=2) == 0
    with pytest.raises(RuntimeError, match=r"1 of 2 processes failed.*\[1\]"):
        reproduce.run(["best"], work, jobs=2)


def test_killed_reproduction_goes_on(tmp_path):
    """A real process, killed in the middle, and started again."""
    command = [sys.executable, "-m", "trainers.cli", "reproduce", "--stage=best", "--problems=BS09", "--jobs=1"]
    command += [f"--out={tmp_path}"]
    code = (
        "import sys, trainers.best as b, trainers.checkpoints as c; b.UPDATES[9] = 600; b.LOOKS = 60;"
        "c.SECONDS_BETWEEN_CHECKPOINTS = 0.0; from trainers.cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *command[3:]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "small" / "checkpoints"
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert list(folder.glob("*.npz")), "it was killed in the middle"
    assert not (tmp_path / "small" / "best").exists()
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 0
    records = [json.loads(line) for line in (tmp_path / "small" / "best" / "BS09.jsonl").read_text().splitlines()]
    assert len(records) == 6
    assert records[0]["looks"] == 60
