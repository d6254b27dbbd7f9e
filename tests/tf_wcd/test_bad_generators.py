"""Bad batches of Python generators: an error that names the batch, and a process that ends."""

import gc
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import tf_wcd

ROOT = Path(__file__).parents[2]


def batches(bad):
    """Ten batches, one of which has a value that is not a number."""
    return (np.full((20, 5), np.nan if number == bad else 1.0, "float32") for number in range(10))


def living_iterators():
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if type(thing).__name__ == "OwnedIterator"}


def test_no_iterator_outlives_the_error():
    """One that did would wait at the end of the process, now and then without end, for Python to run the generator."""
    rbm = tf_wcd.RBMLayer(3, seed=0)
    rbm.compile(keras.optimizers.SGD(0.1), jit_compile=False)
    before = living_iterators()
    with pytest.raises(ValueError, match=r"batch 1.*NaN") as caught:
        rbm.fit(batches(1), verbose=0)
    assert caught.value.__context__ is None
    assert living_iterators() <= before


@pytest.mark.slow
@pytest.mark.parametrize("steps", ["", ", steps_per_epoch=9"])
def test_a_process_ends_with_the_error(steps):
    code = f"""
import tf_wcd
from tests.tf_wcd.test_bad_generators import batches
rbm = tf_wcd.RBMLayer(3, negative_phase="pcd", seed=0)
rbm.compile("sgd")
rbm.fit(batches(7), verbose=0{steps})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: `x of batch 7` contains NaN")
