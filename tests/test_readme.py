"""The code of the README runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        # The same code with fewer epochs.
        exec(compile(block.replace("epochs=10", "epochs=2"), "README.md", "exec"), {})
    assert (tmp_path / "rbm.keras").exists()


def test_the_two_commands_are_shown():
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text
