"""The benchmarks' own arithmetic; what they measure is no matter for tests."""

import json

import pytest

from benchmarks import partition, report, timing
from tf_wcd.evaluation import log_partition


def test_ratios_and_targets():
    faster = timing.row("work", 1e-6, "peer", 5e-6, 4)
    assert (faster["ratio"], faster["met"]) == (pytest.approx(5), True)
    slower = timing.row("work", 2e-3, "floor", 1e-3, 1.35, at_most=True)
    assert (slower["ratio"], slower["met"], slower["target"]) == (pytest.approx(2), False, "<= 1.35")
    assert timing.limit_row("memory", 0.5, 1, "1 GB")["met"]
    part = timing.part_row("work", 2e-3, "a part of it", 1e-3)
    assert (part["ratio"], part["met"], part["target"]) == (pytest.approx(2), None, "")


def test_interleaved_medians_are_per_unit():
    calls = []
    times = timing.interleaved({"a": (lambda: calls.append("a"), 1), "b": (lambda: calls.append("b"), 10)}, 3)
    assert calls == ["a", "b"] * 4
    assert set(times) == {"a", "b"}


def test_report(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.save("small", [timing.row("work", 2.5e-5, "peer", 5e-3, 35), timing.limit_row("memory", 2, 1, "1 GB")])
    record = json.loads((tmp_path / "small.json").read_text())
    assert record["cores"] >= 1
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| work | 25 us | peer | 5 ms | 200.00 | >= 35 | yes |" in text
    assert "**no**" in text
    report.save("small", [timing.row("other work", 1e-6, "NumPy WCD_1", 5e-6, 4)])
    assert "| 1 us | **NumPy WCD_1** | 5 us |" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_brute_force_of_the_partition_benchmark():
    rbm = partition.model(6, 9)
    assert partition.brute_numpy(rbm) == pytest.approx(log_partition(rbm), rel=1e-9)


def test_batching_is_measured_with_the_deploy_file_and_says_so():
    from benchmarks import serving

    assert serving.BATCHING.read_text().count("max_execution_batch_size { value: 32 }") == 1
    text = serving.batching_settings()
    assert "#" not in text
    assert {"max_execution_batch_size=32", "batch_timeout_micros=40000", "num_batch_threads=1"} <= set(text.split(", "))


def test_the_cost_model_is_fitted_and_predicts():
    from benchmarks import scale

    truth = scale.Constants(fixed=0.002, rate=2e10, latency=0.01, bandwidth=5e8)
    times = {(case, n): scale.predicted(truth, case, n) for case in scale.CASES for n in (1, 2)}
    assert tuple(scale.fit(times)) == pytest.approx(tuple(truth), rel=1e-3)
    # Twice the workers: half of the products, and the whole gradient once more over the wire.
    assert scale.flops(scale.TINY, 2) == scale.flops(scale.TINY) / 2
    assert scale.traffic(scale.TINY, 2) == 4 * (16 * 32 + 16 + 32)


@pytest.mark.parametrize(
    ("case", "workers", "latency", "bandwidth", "milliseconds"),
    [
        ((784, 500, 100), 1, 0, 1, 0.34),
        ((784, 500, 100), 8, 0.2e-3, 1e11, 0.53),
        ((784, 500, 100), 64, 3e-3, 3e9, 4.3),
        ((784, 500, 10_000), 8, 0.2e-3, 1e11, 1.0),
        ((784, 500, 10_000), 64, 3e-3, 3e9, 4.4),
        ((4096, 4096, 20_000), 1, 0, 1, 336),
        ((4096, 4096, 20_000), 8, 0.2e-3, 1e11, 44),
        ((4096, 4096, 20_000), 64, 3e-3, 3e9, 53),
    ],
)
def test_what_the_scaling_plan_says_follows_from_the_model(case, workers, latency, bandwidth, milliseconds):
    from benchmarks import scale

    constants = scale.Constants(0.3e-3, 1e13, latency, bandwidth)
    seconds = scale.predicted(constants, scale.Case(*case, 1), workers)
    assert 1e3 * seconds == pytest.approx(milliseconds, rel=0.03)


def test_costs_of_weights_are_ratios_to_the_unweighted_form(monkeypatch):
    from benchmarks import weights

    assert {name for form in (*weights.LARGE, *weights.SMALL) for name in form[:2]} == set(weights.PHASES)
    assert {form.most for form in weights.LARGE if form.weighted == "BCD_1"} == {1.1}
    assert {form.most for form in weights.SMALL if form.weighted == "BCD_1"} == {1.25}
    monkeypatch.setattr(weights, "interleaved", lambda cases, repetitions: cases)
    seconds = {
        "CD_1": 1e-3,
        "WCD_1": 1.02e-3,
        "BCD_1": 1.2e-3,
        "BCD_1, visible side": 2e-3,
        "PCD_1": 2e-3,
        "WPCD_1": 2e-3,
    }
    rows = {r["work"]: r for r in weights.rows_of("work", weights.LARGE[:4], seconds, 1)}
    assert {name: (round(r["ratio"], 6), r["met"]) for name, r in rows.items()} == {
        "work, WCD_1": (1.02, True),
        "work, BCD_1": (1.2, False),
        "work, BCD_1, visible side": (2.0, None),
        "work, WPCD_1": (1.0, True),
    }


def test_operations_of_large_layers():
    """Five products, and the batch of the compared product five times."""
    from benchmarks import large_layers

    case = large_layers.Case(6, 4, updates=2)
    assert large_layers.operations(case) == 5 * 2 * large_layers.BATCH * 24
    assert len(large_layers.product(case)()) == 10


def test_a_stream_and_an_array_make_the_same_updates(monkeypatch):
    from benchmarks import large_layers

    counts = []

    def count(cases, repetitions):
        for work, updates in cases.values():
            counts.append(len(work().epoch) * updates)
        return {name: 1.0 for name in cases}

    monkeypatch.setattr(large_layers, "interleaved", count)
    line = large_layers.stream(rows=40, visible=6, hidden=3, batch=4)
    assert counts == [10, 10]
    assert line["met"]
