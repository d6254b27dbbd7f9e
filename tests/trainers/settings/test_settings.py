"""Settings are frozen values, go into records and come back, and name functions that exist."""

import dataclasses
import importlib

import pytest

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.dbn import PARTS
from trainers.settings.protocol import PAPER, PROTOCOLS
from trainers.settings.runs import DBNRun, ImageMethod, ImageRun, SmallRun
from trainers.studies.reproduce import STAGES

RUNS = [
    SmallRun("BS09", "wcd", 1, 9, 0.03, 0.1, "linear", 0.9, 400, weight_decay=0.1),
    ImageRun("mnist", "WPCD", "spin", False, 0.1, 3, 0.25),
    DBNRun(train_size=300),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: type(run).__name__)
def test_settings_come_back_from_a_record(run):
    record = {**run.as_dict(), "seconds": 1.0}
    assert type(run).from_record(record) == run
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.epochs = 2


def test_the_label_of_old_records_becomes_a_field():
    old = {"data": "mnist", "method": "WPCD, ESS >= 50%", "units": "spin", "centered": True}
    run = ImageRun.from_record({**old, "learning_rate": 0.1, "epochs": 3})
    assert run.image_method == ImageMethod("WPCD", 0.5)
    assert run.image_method.label == old["method"]
    assert ImageRun.from_record({**old, "method": "PCD", "learning_rate": 0.1, "epochs": 3}).minimum_ess == 0


def test_nobody_can_change_a_protocol():
    with pytest.raises(AttributeError):
        PAPER.table.seed = 1
    for protocol in PROTOCOLS.values():
        for mapping in (protocol.table.efforts, protocol.selection.full, protocol.best.updates):
            with pytest.raises(TypeError):
                mapping["BS09"] = None
        assert set(protocol.selection.full) == set(COLUMNS)
        assert set(protocol.table.efforts) == set(paper.PROBLEMS)


def test_stages_and_parts_can_be_run():
    for stage in STAGES.values():
        assert callable(importlib.import_module(stage.module).run)
    for part in PARTS.values():
        module, _, name = part.function.partition(":")
        assert getattr(importlib.import_module(module), name).__doc__
