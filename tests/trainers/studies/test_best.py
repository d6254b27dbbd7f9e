"""The exact gradient, whose KL nothing should be below."""

import pytest

from trainers.settings import paper
from trainers.settings.protocol import PAPER
from trainers.store.records import Records
from trainers.studies import best
from trainers.studies.work import Work


@pytest.mark.xla
def test_exact_gradient_beats_the_papers_best_on_bars_and_stripes(tmp_path):
    one = PAPER.best._replace(updates={9: 20_000}, variances=(1.0,), learning_rates=(0.1,), evaluations=5)
    assert best.run(Work(tmp_path, ("BS09",), protocol=PAPER._replace(best=one), verbose=False)) == 0
    (record,) = Records(tmp_path / "small" / "best" / "BS09.jsonl").read()
    assert record["min_kl"] < min(paper.TABLE["BS09", method][0] for method in paper.METHODS)
