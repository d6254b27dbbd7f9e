"""The example of Deep Belief Networks, run as a user runs it, in a short form."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from tests.support.mnist import with_mnist

EXAMPLE = Path(__file__).parents[1] / "examples" / "dbn_mnist.py"


def test_it_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 60


@pytest.mark.slow
def test_it_runs(tmp_path):
    command = [sys.executable, str(EXAMPLE), "--images=500", "--epochs=1", "--out=digits.png"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=with_mnist())
    assert result.returncode == 0, result.stderr
    assert "Layer 3/3" in result.stdout
    errors = [float(e) for e in re.findall(r"Test error .*: ([\d.]+)%", result.stdout)]
    assert len(errors) == 2
    assert np.ptp(image.imread(tmp_path / "digits.png")) > 0.5
