"""The notebooks run from beginning to end, in a short form."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.test_examples import COPIES, ROOT

SHORT = {"small_problems": {"EPOCHS": "1"}, "mnist": {"EPOCHS": "1", "IMAGES": "1000"}}


def test_every_notebook_has_a_short_form():
    assert {path.stem for path in (ROOT / "examples").glob("*.ipynb")} == set(SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_notebook(name, tmp_path, monkeypatch):
    if name == "mnist" and not Path(COPIES, "mnist.npz").exists():
        pytest.skip("no local copy of MNIST")
    for key, value in {**SHORT[name], "TF_WCD_DATA": str(COPIES), "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(key, value)
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "saved with outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 3
