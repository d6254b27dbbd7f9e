"""The study of each method's steps along its own training: what it keeps, and that it runs once."""

import dataclasses

import numpy as np
import pytest

from trainers.report.gradient_section import gradients_figure, gradients_section
from trainers.settings.columns import COLUMNS
from trainers.settings.gradient_protocol import GradientProtocol
from trainers.settings.protocol import SHORT
from trainers.settings.runs import SmallRun
from trainers.studies import gradients
from trainers.studies.table import Cell
from trainers.studies.work import Work

RUN = SmallRun("P08", "cd", 1, 8, 0.05, 0.1, "constant", 0.0, 300)


def keep_cell(work, name):
    run = dataclasses.replace(RUN, negative_phase=COLUMNS[name].negative_phase)
    Cell(run.problem, COLUMNS[name], "paper").records(work.small).append({**run.as_dict(), "min_kl": 1.0})


def test_moments_go_from_the_first_to_the_last_update():
    assert GradientProtocol(moments=4, first=10).updates(10_000) == [10, 100, 1000, 10_000]
    assert GradientProtocol(moments=2, first=100).updates(50) == [50, 50]


def test_a_training_is_looked_at_once_and_reported(tmp_path):
    work = Work(tmp_path, ("P08",), protocol=SHORT, verbose=False)
    with pytest.raises(ValueError, match=r"Run the cell of the table first.*--problems=P08 --methods=CD_1"):
        gradients.run(work)
    for name in ("CD_1", "PCD"):
        keep_cell(work, name)
    assert gradients.run(work, deadline=0.0) == 2
    assert gradients_section(work.small, SHORT.gradients) == []
    assert gradients_figure(work.small, SHORT.gradients) is None
    assert gradients.run(work) == 0
    found = {name: gradients.records_of("P08", name, work.small).read() for name in ("CD_1", "PCD")}
    for name, records in found.items():
        (record,) = records
        assert (record["method"], record["negative_phase"]) == (name, COLUMNS[name].negative_phase)
        assert [moment["updates"] for moment in record["moments"]] == [10, 55, 300]
        values = np.array([[m["kl"], m["bias"], m["deviation"], m["cosine"]] for m in record["moments"]])
        assert np.isfinite(values).all()
        assert (values[:, 3] <= 1).all()
    assert found["CD_1"][0]["moments"][-1] != found["PCD"][0]["moments"][-1]
    lines = gradients_section(work.small, SHORT.gradients)
    assert sum(line.startswith("| P08 |") for line in lines) == 2
    figure = gradients_figure(work.small, SHORT.gradients)
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2]
    assert gradients.run(work, deadline=0.0) == 0, "nothing runs again"
