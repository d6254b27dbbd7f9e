"""The benchmark of time to a likelihood: every method trains, and its records make the table."""

import json

import numpy as np
import pytest

from benchmarks import quality
from benchmarks.quality_methods import HIDDEN, METHODS
from benchmarks.record_file import RecordFile

PEERS = {"rbms": "rbms", "BernoulliRBM": "sklearn"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "pcd" else pytest.mark.slow) for name in METHODS]
)
def test_every_method_learns_what_is_always_on(name):
    if name in PEERS:
        pytest.importorskip(PEERS[name])
    x = (np.random.default_rng(0).random((400, 12)) < np.linspace(0.1, 0.9, 12)).astype("float32")
    training = METHODS[name].start(x, 0)
    x[:, 0] = 1.0
    for _ in range(60):
        training.epoch(x, min(0.1, METHODS[name].rates[-1]))
    rbm = training.model()
    assert rbm.kernel.shape == (12, HIDDEN)
    machine = rbm.machine()
    reconstruction = machine.reconstruct(machine.hidden_field(x)).numpy().mean(0)
    assert reconstruction[0] > reconstruction[1:].max()


def test_records_are_kept_and_read_again(tmp_path):
    """The search goes beyond an end, then between the best and its neighbours, and nothing is run twice."""
    ran = []

    def run(method, rate, power, passes, search):
        ran.append((rate, power))
        if rate > 0.7:
            return {"diverged": True}
        lower = -100 - 10 * abs(np.log10(rate / (0.5 if power == 1 else 0.06))) - 5 * (power == 3)
        return {"estimate": lower + passes, "lower": lower, "upper": -80.0, "cpu_seconds": 10.0 * passes}

    work = RecordFile(tmp_path / "quality.jsonl", run)
    assert quality.best_settings(work, "pcd") == (0.3, 1)
    assert quality.best_settings(work, "pcd") == (0.3, 1)
    linear, cubic = ([rate for rate, used in sorted(ran) if used == power] for power in (1, 3))
    assert linear == [0.03, 0.1, 0.17, 0.3, 0.52, 0.9]  # at 0.9 it diverges, so that 0.52 is not taken
    assert cubic == [0.03, 0.058, 0.1, 0.17, 0.3]
    for passes in quality.PASSES:
        work.record(method="pcd", rate=0.3, power=1, passes=passes, search=False)
    work.record(method="pcd", rate=0.9, power=1, passes=2, search=False)  # one that diverges
    records = work.read()
    assert json.loads(work.path.read_text().splitlines()[0]) == records[0]
    table = quality.table(records)
    assert "| pcd | 0.3, 1 | 40 s | 90 s | 160 s |" in table  # -98.2, -93.2 and -86.2 nats after 4, 9 and 16 passes
    quality.plot(records, tmp_path / "quality.png")
    assert (tmp_path / "quality.png").stat().st_size > 1000
