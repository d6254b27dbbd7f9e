"""What XLA has compiled is kept for later processes, and what is damaged is not used."""

import json
import os
import subprocess
import sys

import pytest

from tf_wcd import xla_cache

CHILD = """
import hashlib, json, os, sys
import keras, numpy as np, tf_wcd
from tf_wcd import xla_cache

own = xla_cache.use_cache(os.environ["TF_WCD_XLA_CACHE"])
x = np.random.default_rng(0).integers(0, 2, (20, 6)).astype("float32")
counts = []
for rate in 0.1, 0.3:
    rbm = tf_wcd.RBMLayer(4, negative_phase="wcd", seed=0)
    rbm.compile(keras.optimizers.SGD(rate), jit_compile=True)
    rbm.fit(x, batch_size=10, epochs=2, verbose=0)
    counts.append(len(os.listdir(own)))
print(json.dumps([str(own), counts, rbm.kernel.numpy().tolist()]))
"""


def run(folder):
    environment = {**os.environ, "TF_WCD_XLA_CACHE": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_XLA_FLAGS", None)
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=environment)
    own, counts, kernel = json.loads(done.stdout.splitlines()[-1])
    return own, counts, kernel


@pytest.mark.slow
def test_a_later_process_compiles_nothing_and_gets_the_same_bits(tmp_path):
    """An entry stands for a compilation: another learning rate has none, nor has another process."""
    own, counts, kernel = run(tmp_path)
    assert counts == [1, 1]
    (entry,) = (tmp_path / os.path.basename(own)).iterdir()
    written = entry.stat().st_mtime_ns
    assert run(tmp_path) == (own, [1, 1], kernel)
    assert entry.stat().st_mtime_ns == written
    entry.write_bytes(entry.read_bytes()[:-1000])
    assert run(tmp_path) == (own, [1, 1], kernel)
    assert xla_cache.is_complete(entry)


def test_users_options_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--other=1")
    own = xla_cache.use_cache(tmp_path)
    assert os.environ["TF_XLA_FLAGS"].split()[0] == "--other=1"
    assert str(own) in os.environ["TF_XLA_FLAGS"]
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory=/elsewhere")
    xla_cache.use_cache(tmp_path)
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_persistent_cache_directory=/elsewhere"


def test_other_options_have_another_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    first = xla_cache.use_cache(tmp_path)
    assert xla_cache.use_cache(tmp_path) == first
    monkeypatch.setenv("XLA_FLAGS", "--xla_something=1")
    assert xla_cache.use_cache(tmp_path) != first


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"TF_WCD_XLA_CACHE cannot be made.*Received: '.*file'"):
        xla_cache.use_cache(tmp_path / "file")
