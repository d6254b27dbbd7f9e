"""The benchmark of evaluation runs, on sizes that say nothing about speed."""

from benchmarks import likelihood


def test_rows(monkeypatch):
    for name, value in {"SAMPLES": 300, "POINTS": 40, "HIDDEN": 6, "CHAINS": 4, "TEMPERATURES": 10}.items():
        monkeypatch.setattr(likelihood, name, value)
    monkeypatch.setattr(likelihood, "parzen_memory", lambda fraction: {"peak": 0.0, "call": 0.0})
    rows = likelihood.run(fraction=0.5, repetitions=1)
    assert [r["what"] for r in rows][:2] == ["tf_wcd", "its two products alone"]
    assert {r["benchmark"].split(",")[0] for r in rows} == {"AIS", "Parzen"}
    for r in rows:
        assert (r["seconds"] is None) == (r["times_ours"] is None) == (r["note"] == likelihood.INSTALL)
    assert "150 samples x 40 points" in likelihood.table(rows)
