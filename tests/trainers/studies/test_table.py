"""The table, in miniature."""

import itertools

import numpy as np

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.grids import RULE, Grid
from trainers.settings.protocol import PAPER, SHORT
from trainers.settings.runs import SmallRun
from trainers.store.records import Records
from trainers.studies import table
from trainers.studies.work import Work


def test_settings_of_a_cell_from_before_there_was_decay_can_be_read(tmp_path):
    settings = SmallRun("BS09", "wcd", 1, 9, 0.03, 0.1, "linear", 0.9, 400)
    cell = table.Cell("BS09", paper.METHODS["WCD_1"], "own")
    cell.records(tmp_path).append({name: v for name, v in settings.as_dict().items() if name != "weight_decay"})
    assert cell.settings_used(tmp_path) == settings


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".jsonl", ".npz")}


def test_a_cell_of_the_table_from_beginning_to_end(tmp_path):
    """With the rounds of the rule, on a small grid."""
    grid = Grid((1,), (0.1,), (0.03, 0.001), ("linear",), (0.9,))
    protocol = SHORT._replace(selection=SHORT.selection._replace(rule=RULE._replace(grid=grid)))
    work = Work(tmp_path, ("BS09",), ("CD_1", "WCD_1"), protocol, verbose=False)
    cells = table.cells(work.problems, work.methods, protocol.table)
    assert [cell.parameters for cell in cells if cell.method.name == "WCD_1"] == ["paper", "own"]
    assert table.run(work) == 0
    for name, phase in (("BS09-CD_1-paper", "cd"), ("BS09-WCD_1-own", "wcd"), ("BS09-WCD_1-paper", "wcd")):
        records = Records(tmp_path / "small" / "table" / f"{name}.jsonl").read()
        assert [record["member"] for record in records] == [0, 1, 2]
        assert {record["negative_phase"] for record in records} == {phase}
        assert {record["rule"] for record in records} == {RULE.version}
        assert len({record["min_kl"] for record in records}) == 3, "each seed draws other random numbers"
        assert np.load(tmp_path / "small" / "distributions" / f"{name}.npz")["log_probabilities"].shape == (14,)
    plain, taken_over = (
        Records(tmp_path / "small" / "table" / f"BS09-{name}-paper.jsonl").read()[0] for name in ("CD_1", "WCD_1")
    )
    for name in ("hidden", "learning_rate", "variance", "schedule", "momentum"):
        assert plain[name] == taken_over[name]
    before = contents(tmp_path)
    assert table.run(work) == 0
    assert contents(tmp_path) == before, "nothing is run again"
    other = Work(tmp_path, ("BS16",), ("CD_1",), protocol)
    assert table.run(other, deadline=0.0) == 1, "nothing new is begun after the deadline"


def test_which_cells_have_parameters_of_their_own():
    """Weighted columns, WCD_0 only where all states are listed, and unweighted ones that the protocol runs longer."""
    cells = table.cells(("BS09", "Int12"), tuple(COLUMNS), PAPER.table)
    own = {(cell.problem, cell.method.name) for cell in cells if cell.parameters == "own"}
    weighted = {"WCD_1", "WCD_10", "WPCD", "BCD_1", "BCD_10", "JPCD"}
    assert own == {*itertools.product(("BS09", "Int12"), weighted), ("Int12", "WCD_0"), ("BS09", "CD_10")}
    longer = table.Cell("BS09", COLUMNS["CD_10"], "own").longer(PAPER.table)
    assert longer is not None
    assert longer.updates == 1_000_000
    assert len(cells) == len(set(cells))


def test_columns_of_ours_take_over_parameters(tmp_path):
    names = ("BCD_10", "JPCD", "WCD_0")
    cells = [cell for cell in table.cells(("BS09",), names, SHORT.table) if cell.parameters == "paper"]
    assert [(cell.method.name, cell.owner.name) for cell in cells] == [
        ("WCD_0", "CD_1"),
        ("BCD_10", "CD_10"),
        ("JPCD", "PCD"),
    ]
    work = Work(tmp_path, ("BS09",), names, SHORT, verbose=False)
    settings = {"hidden": 9, "learning_rate": 0.01, "variance": 0.1, "schedule": "linear", "momentum": 0.9}
    for cell in cells:
        run = SmallRun("BS09", cell.owner.negative_phase, cell.owner.gibbs_steps, updates=400, **settings)
        cell._replace(method=cell.owner).records(work.small).append(run.as_dict())
    for cell in cells:
        records = table.run_cell(cell, work)
        assert records == cell.records(work.small).read()
        assert len(records) == cell.seeds(SHORT.table)
        for record in records:
            assert settings.items() <= record.items()
            assert (record["negative_phase"], record["gibbs_steps"]) == (
                cell.method.negative_phase,
                cell.method.gibbs_steps,
            )
            assert np.isfinite(record["min_kl"])
