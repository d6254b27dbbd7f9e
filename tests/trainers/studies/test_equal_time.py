"""All methods for the same time: costs are measured once, updates follow from them, and nothing runs twice."""

from types import MappingProxyType

import numpy as np
import pytest

from trainers.report.weights_sections import equal_time_section, likelihood_of
from trainers.runs import image_costs
from trainers.runs.image_sets import Images
from trainers.settings.image_protocol import ImageProtocol, ImageSet
from trainers.settings.protocol import PAPER
from trainers.settings.runs import ImageMethod
from trainers.settings.weights_protocol import EqualTimeProtocol, Timing
from trainers.studies import equal_time
from trainers.studies.work import Work

CD, BCD = ImageMethod("CD"), ImageMethod("BCD", 0.5)
TIMING = Timing(rounds=3, updates=20)
PROTOCOL = PAPER._replace(
    images=ImageProtocol(
        sets=MappingProxyType({"ocr_letters": ImageSet("ocr_letters", "OCR", "threshold", 1, (1,))}), hidden=5
    ),
    equal_time=EqualTimeProtocol(
        methods=(CD, BCD),
        epochs=10,
        rates=(0.1,),
        seeds=(3, 4),
        timing=TIMING,
        temperatures=100,
    ),
)


@pytest.fixture(scope="module")
def letters():
    """Tiny pictures: one of two bars, with noise."""
    rng = np.random.default_rng(0)

    def draw(count):
        x = np.zeros((count, 16, 8), "float32")
        x[np.arange(count), rng.choice([3, 12], count)] = 1
        return np.abs(x.reshape(count, 128) - (rng.random((count, 128)) < 0.02)).astype("float32")

    return Images(draw(300), draw(10), draw(100))


@pytest.fixture(scope="module")
def work(letters, tmp_path_factory):
    """A study that is finished; the cost of BCD was known before."""
    work = Work(tmp_path_factory.mktemp("study"), protocol=PROTOCOL, verbose=False)
    equal_time.costs(work.large).append({"method": BCD.label, "cost": 1.5, "date": "2026-01-01"})
    assert equal_time.run(work, deadline=0.0, load=lambda _: letters) == 4
    assert equal_time.run(work, load=lambda _: letters) == 0
    return work


def test_updates_follow_from_the_costs(work):
    assert equal_time.known_costs(work.large, PROTOCOL.equal_time) == {"BCD, ESS >= 50%": 1.5, "CD": 1.0}
    assert len(equal_time.costs(work.large).read()) == 1, "what is known is not measured again"
    records = equal_time.runs_done(work.large).read()
    assert [(r["seed"], r["settings"]["method"]) for r in records] == [(3, "CD"), (3, "BCD"), (4, "CD"), (4, "BCD")]
    # 300 images in batches of 100, ten epochs.
    assert [record["settings"]["updates"] for record in records] == [30, 20, 30, 20]
    assert not list((work.large / "checkpoints").glob("*.keras"))


def test_bounds_enclose_and_seeds_differ(work):
    records = equal_time.runs_done(work.large).read()
    for record in records:
        low, high = record["annealed"]["test"]
        assert low - 1 <= record["annealed"]["test_estimate"] <= high + 1
    assert records[0]["annealed"] != records[2]["annealed"]
    assert 0.5 - 1e-3 <= records[1]["ess"] <= 1


def test_finished_runs_are_not_run_again(work):
    before = equal_time.runs_done(work.large).read()
    assert equal_time.run(work, load=None) == 0
    assert equal_time.runs_done(work.large).read() == before


def test_the_report_says_what_came_out(work):
    text = "\n".join(equal_time_section(work.large, PROTOCOL.equal_time))
    records = equal_time.runs_done(work.large).read()
    cd, bcd = (likelihood_of(records, method, 0.1) for method in (CD, BCD))
    assert f"| 0.1 | BCD, ESS >= 50% | 1.50 | 20 | {bcd.high:.2f} | {bcd.low:.2f} | {bcd.mean:.2f} (" in text
    assert f"- BCD, ESS >= 50% against CD, nats: {bcd.mean - cd.mean:+.2f} at 0.1" in text
    wider = PROTOCOL.equal_time._replace(rates=(0.1, 0.3))
    assert "| 0.3 | CD | 1.0 | not run, or diverged |" in "\n".join(equal_time_section(work.large, wider))


def test_a_run_that_diverged_has_no_likelihood(work):
    records = equal_time.runs_done(work.large).read()
    lost = [{**record, "annealed": None} if record["seed"] == 3 else record for record in records]
    assert likelihood_of(lost, CD, 0.1) is None


def test_costs_are_medians_of_ratios_within_a_round(letters, tmp_path, monkeypatch):
    """A clock of our own: the machine gets slower and slower, the first round compiles, and one is disturbed."""
    seconds = iter([9.0, 50.0, 1.0, 1.2, 2.0, 9.0, 4.0, 4.8])
    updates = []

    def timed(rbm, x, batch_size, count):
        updates.append((type(rbm.negative_phase).__name__, len(x), batch_size, count))
        return next(seconds)

    monkeypatch.setattr(image_costs, "_seconds", timed)
    work = Work(tmp_path, protocol=PROTOCOL, verbose=False)
    assert equal_time.cost_of(BCD, work, letters) == 1.2
    assert updates == [("CD", 300, 100, 20), ("BCD", 300, 100, 20)] * 4
    assert equal_time.cost_of(BCD, work, letters) == 1.2, "from the records: the clock is at its end"
    assert equal_time.cost_of(CD, work, letters) == 1.0
