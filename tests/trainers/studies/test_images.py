"""Runs on images: rates chosen by labels, long runs evaluated, on tiny pictures; the choice, on made-up scores."""

import json
from types import MappingProxyType

import numpy as np
import pytest

import tf_wcd
from tests.support.mnist import ROOT
from tf_wcd import evaluation
from trainers.report.image_cells import image_cells
from trainers.report.image_figures import parzen_figure
from trainers.report.image_sections import long_runs_section, rates_section, variants, variants_section
from trainers.runs import image_samples, image_sets
from trainers.runs.image_sets import Images, Labels
from trainers.settings.image_protocol import Evaluation, ImageProtocol, ImageSet
from trainers.settings.protocol import PAPER
from trainers.settings.record_protocol import Annealing
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.store.records import Records
from trainers.store.sharing import claim
from trainers.studies import images, single
from trainers.studies.work import Work

PCD, TEMPERED, PTT = ImageMethod("PCD"), ImageMethod("WPCD", 0.5), ImageMethod("PTT")
LETTERS = ImageSet("ocr_letters", "OCR", "threshold", 30, (4, 8), held_back=1, seeds=(3, 4), methods=(PCD, TEMPERED))
SMALL = ImageProtocol(
    sets=MappingProxyType({"ocr_letters": LETTERS}),
    mesh=(0.01, 0.1, 0.3),
    hidden=6,
    evaluation=Evaluation(
        counts=(100, 1000), chains=100, temperatures=20, burn_in=20, annealing=Annealing(budget=100, chains=20)
    ),
)


@pytest.fixture(scope="module")
def letters():
    """Tiny pictures: one of two bars, with noise; the bar is the label."""
    rng = np.random.default_rng(0)

    def draw(count):
        x = np.zeros((count, 16, 8), "float32")
        labels = rng.integers(2, size=count)
        x[np.arange(count), np.where(labels, 12, 3)] = 1
        return np.abs(x.reshape(count, 128) - (rng.random((count, 128)) < 0.02)).astype("float32"), labels

    (train, y), (valid, y_valid), (test, _) = draw(300), draw(100), draw(100)
    return Images(train, valid, test, Labels(y, y_valid))


def test_the_rate_is_that_of_the_best_accuracy_in_the_last_round():
    def score(rate, epochs):
        return images.run_of("ocr_letters", TEMPERED, SMALL, rate, epochs)

    scores = {}
    order = []
    accuracies = {4: {0.01: 0.5, 0.1: 0.9, 0.3: -1.0}, 8: {0.01: 0.95, 0.1: 0.95}}
    while True:
        rate, run = images.choice(LETTERS, TEMPERED, SMALL, scores)
        if run is None:
            break
        order.append((run.epochs, run.learning_rate))
        scores[run] = accuracies[run.epochs][run.learning_rate]
    assert order == [(4, 0.01), (4, 0.1), (4, 0.3), (8, 0.1), (8, 0.01)], "all, then the best two for longer"
    assert rate == 0.01, "of equal accuracies the one with the smaller rate counts"
    scores[score(0.1, 8)] = 0.96
    assert images.choice(LETTERS, TEMPERED, SMALL, scores) == (0.1, None)
    assert images.choice(LETTERS, PCD, SMALL, scores)[1] == images.run_of("ocr_letters", PCD, SMALL, 0.01, 4)


@pytest.fixture(scope="module")
def work(letters, tmp_path_factory):
    """A study that is finished: two rates, one round."""
    images_of_it = MappingProxyType({"ocr_letters": LETTERS._replace(mesh_epochs=(8,))})
    protocol = PAPER._replace(images=SMALL._replace(sets=images_of_it, mesh=(0.1, 0.3)))
    work = Work(tmp_path_factory.mktemp("study"), protocol=protocol, verbose=False)
    with claim(work.large / "checkpoints" / "ocr_letters.lock") as ours:
        assert ours
        assert images.run(work, load=lambda _: letters) == 6, "another process is at this set"
    assert images.run(work, load=lambda _: letters) == 0
    return work


def test_the_study_chooses_rates_by_labels_and_keeps_what_it_found(work):
    chosen = images.rates_tried("ocr_letters", work.large).read()
    assert [r["settings"]["epochs"] for r in chosen] == [8, 8] * 2
    accuracies = {(r["settings"]["method"], r["settings"]["learning_rate"]): r["accuracy"] for r in chosen}
    assert max(accuracies.values()) > 0.9, "two bars are told apart"
    records = images.long_runs(work.large).read()
    assert [(r["settings"]["method"], r["seed"]) for r in records] == [
        ("PCD", 3), ("WPCD", 3), ("PCD", 4), ("WPCD", 4),
    ]  # fmt: skip
    for record in records:
        method, rate = record["settings"]["method"], record["settings"]["learning_rate"]
        assert accuracies[method, rate] == max(value for (name, _), value in accuracies.items() if name == method)
        found = record["likelihood"]
        assert found["from"] == "exact"
        assert found["lower"] == found["estimate"] == found["upper"]
        assert record["training_cpu_seconds"] >= 0
        assert all(len(record["parzen"][kind]["values"]) == 2 for kind in ("equilibrium", "data"))
    assert records[0]["likelihood"] != records[2]["likelihood"], "seeds differ"
    assert records[1]["ess"][-1][1] >= 0.5 - 1e-3
    drawn = {path.name for path in (work.large / "figures").iterdir()}
    methods = ("PCD", "WPCD_ESS__50")
    assert drawn == {f"ocr_letters-{name}-3-{kind}.png" for name in methods for kind in ("samples", "filters")}
    assert not list((work.large / "checkpoints").glob("*.keras"))
    assert images.run(work, load=None) == 0, "nothing runs again"


def test_the_window_and_the_curve_of_the_training_images_are_computed_once(work, letters):
    (reference,) = images.references(work.large).read()
    assert reference["parzen"]["counts"] == [100], "there are 401 training images"
    assert images.reference_of(LETTERS, letters, work) == reference
    assert len(images.references(work.large).read()) == 1


def test_the_report_says_what_came_out(work):
    cells = image_cells(work.large, SMALL)
    assert [(cell.method, len(cell.runs)) for cell in cells] == [(PCD, 2), (TEMPERED, 2)]
    mean = np.mean([r["likelihood"]["estimate"] for r in images.long_runs(work.large).read()[::2]])
    text = "\n".join(long_runs_section(work.large, SMALL))
    assert "| Parzen, 100 | 10^3 | from data, 10^3 |" in text
    assert f"**{mean:.1f} (" in text
    assert "- WPCD, ESS >= 50% against PCD, nats of the log-likelihood: " in text
    longer = SMALL._replace(sets=MappingProxyType({"ocr_letters": LETTERS._replace(methods=(PCD, PTT))}))
    assert "| ocr_letters | PTT | not run |" in "\n".join(long_runs_section(work.large, longer))
    rates = "\n".join(rates_section(work.large, work.protocol.images))
    assert rates.count("| ocr_letters | PCD | 8 | ") == 1
    assert len(parzen_figure(work.large, SMALL).axes[0].lines) == 2 * 2 + 2


def test_a_run_that_diverged_has_no_figures(tmp_path, letters, monkeypatch):
    def diverges(*_):
        raise tf_wcd.DivergenceError("too large")

    work = Work(tmp_path, protocol=PAPER._replace(images=SMALL), verbose=False)
    for rate in SMALL.mesh:
        for epochs in LETTERS.mesh_epochs:
            settings = images.run_of("ocr_letters", PCD, SMALL, rate, epochs).as_dict()
            images.rates_tried("ocr_letters", work.large).append({"settings": settings, "accuracy": 1 - rate})
    monkeypatch.setattr(images, "train", diverges)
    record = images.run_one(LETTERS, PCD, 3, work, lambda _: letters)
    assert (record["likelihood"], record["settings"]["learning_rate"]) == (None, 0.01)
    assert "| ocr_letters | PCD | diverged |" in "\n".join(long_runs_section(work.large, SMALL))
    assert images.choose_rate(LETTERS, TEMPERED, work, letters) == 0.01, "of rates that all diverge the smallest"
    assert "| diverged | diverged |" in "\n".join(rates_section(work.large, SMALL))


def test_samples_of_the_equilibrium_have_the_shares_of_the_modes_and_those_from_data_the_datas():
    """Two modes that chains do not cross, one of them with nine tenths of the probability; all data in the other."""
    rbm = tf_wcd.RBMLayer(1, seed=0)
    rbm.build((None, 12))
    rbm.kernel.assign(np.full((12, 1), 12.0))
    rbm.visible_bias.assign(np.full(12, -6.0))
    # -F is -72 + 144 + c = log 9 where all are on, and nothing where all are off.
    rbm.hidden_bias.assign([-72.0 + np.log(9.0)])
    states = ((np.arange(2**12)[:, None] >> np.arange(12)) & 1).astype("float32")
    exact = np.exp(evaluation.log_prob(rbm, states))[states.mean(axis=1) > 0.5].sum()
    assert 0.85 < exact < 0.95
    how = SMALL.evaluation._replace(counts=(2000,), chains=1000, temperatures=200, spacing=1)
    data = np.zeros((50, 12), "float32")
    data[:, 0] = 1  # means of 0 are none of independent units
    mostly_on = image_samples.equilibrium_samples(rbm, np.concatenate([data, 1 - data]), how).mean(axis=1) > 0.5
    assert abs(mostly_on.mean() - exact) < 4 * np.sqrt(exact * (1 - exact) / 1000) + 0.02
    from_data = image_samples.samples_from_data(rbm, data, how)
    assert from_data.dtype == np.uint8
    assert len(from_data) == 2000
    assert from_data.mean() < 0.1


def test_accuracy_counts_labels_that_are_right(letters):
    rbm = tf_wcd.RBMLayer(2, classes=2, visible_type="spin", seed=0)
    rbm.build((None, 128))
    guess = np.argmax(rbm.label_log_prob(2 * letters.test - 1), axis=-1)
    labels = np.where(np.arange(100) < 30, 1 - guess, guess)
    assert image_sets.accuracy(rbm, letters.test, labels) == pytest.approx(0.7)


def test_one_image_run_in_a_new_folder(tmp_path, letters, capsys):
    run = ImageRun("ocr_letters", "JPCD", "spin", True, 0.01, 1)
    record = single.run_images(run, tmp_path / "new", protocol=SMALL, load=lambda _: letters)
    assert record["settings"]["epochs"] == 1
    kinds = sorted(path.suffix for path in (tmp_path / "new").iterdir() if path.is_file())
    assert kinds == [".jsonl", ".keras", ".png", ".png"]
    assert f"{record['likelihood']['estimate']:.2f} nats, between" in capsys.readouterr().out
    again = single.run_images(run, tmp_path / "new", protocol=SMALL, load=None)
    assert again == json.loads(json.dumps(record)), "nothing runs again"


def test_records_of_other_units_and_gradients_are_shown():
    folder = ROOT / "trainers" / "results" / "large"
    runs = [ImageRun.from_record(r["settings"]) for r in variants(folder).read()]
    assert {run.image_method for run in runs} == {PCD, ImageMethod("WPCD"), TEMPERED}
    assert {(run.units, run.centered) for run in runs} == {(u, c) for u in ("bernoulli", "spin") for c in (True, False)}
    text = "\n".join(variants_section(folder))
    assert "| PCD (spins, centred) | -59.3 | 0.003 |" in text
    assert "| WPCD, ESS >= 50% (0/1) | -57.3 | 0.1 |" in text


def test_plain_methods_have_no_weights_to_temper():
    with pytest.raises(ValueError, match=r"Received: --method=PCD --minimum_ess=0\.5"):
        ImageMethod("PCD", 0.5)


def test_runs_without_labels_choose_no_rate(tmp_path, letters):
    work = Work(tmp_path, protocol=PAPER._replace(images=SMALL), verbose=False)
    with pytest.raises(ValueError, match="ocr_letters came without them"):
        images.choose_rate(LETTERS, PCD, work, letters._replace(labels=None))
    assert not Records(tmp_path / "large" / "selection" / "ocr_letters.jsonl").read()
