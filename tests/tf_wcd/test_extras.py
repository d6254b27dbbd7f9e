"""Without the extras: what works, and what the rest says."""

import json
import subprocess
import sys

import pytest

from tf_wcd import extras

# In a process of its own, in which packages that are extras cannot be imported, nor what comes with them.
PLAIN = """
import contextlib, io, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

GONE = {"matplotlib", "scipy", "tensorboard", "sklearn", "PIL", "pandas", "keras_tuner", "grpc_health", "tornado"}
sys.meta_path.insert(0, Absent())

import keras
import numpy as np
import tensorflow as tf
import tf_wcd
from tf_wcd import plots, units
from trainers import cli

def words(function, *arguments):
    try:
        function(*arguments)
    except ModuleNotFoundError as error:
        return str(error)

def command(*arguments):
    error, before = io.StringIO(), set(cli.FLAGS)
    try:
        with contextlib.redirect_stderr(error):
            cli.main(list(arguments))
    except SystemExit as stop:
        for flag in set(cli.FLAGS) - before:
            delattr(cli.FLAGS, flag)
        cli.FLAGS.unparse_flags()
        return [stop.code, error.getvalue()]

found = {}
states, probabilities = tf_wcd.datasets.load("BS09")
rbm = tf_wcd.RBMLayer(4, hidden_type=units.Binomial(3), negative_phase="wcd", seed=0)
rbm.compile("sgd")
rbm.fit(states, epochs=2, verbose=0)
real = tf_wcd.RBMLayer(4, visible_type="relu", seed=0)
real.compile("sgd")
real.fit(2.0 * states, verbose=0)
found["kl"] = tf_wcd.evaluation.kl_divergence(rbm, states, probabilities)
found["log_prob"] = float(rbm.distribution().log_prob(states[:1])[0])
rbm.save("rbm.keras")
rbm.export("saved_model")
found["shape"] = plots.picture_shape(784)
found["sample"] = command("sample", "--model=rbm.keras", "--count=2", "--gibbs_steps=2", "--npy=samples.npy")
found["drawn sample"] = command("sample", "--model=rbm.keras", "--png=samples.png")
found["demo"] = command("demo", "--out=demo")
found["small"] = command("train", "small", "--out=runs")
found["drawing"] = words(plots.image_sheet, states, (3, 3))
found["board"] = words(tf_wcd.callbacks.RBMTensorBoard, "logs")
found["sklearn"] = words(lambda: tf_wcd.sklearn)
found["matlab"] = words(tf_wcd.datasets.caltech101_silhouettes.read_matlab, "file.mat")
assert not GONE & {name.partition(".")[0] for name in sys.modules}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run([sys.executable, "-c", PLAIN], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_a_plain_installation_trains_evaluates_saves_exports_and_samples(plain):
    folder, found = plain
    assert found["kl"] > 0
    assert found["log_prob"] < 0
    assert found["shape"] == [28, 28]
    assert found["sample"][0] == 0
    assert {"rbm.keras", "saved_model", "samples.npy"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("what", "package", "extra", "module"),
    [
        ("drawing", "Matplotlib", "plots", "matplotlib"),
        ("board", "TensorBoard", "tensorboard", "tensorboard"),
        ("sklearn", "scikit-learn", "sklearn", "sklearn"),
        ("matlab", "SciPy", "datasets", "scipy"),
    ],
)
def test_the_rest_names_the_extra(plain, what, package, extra, module):
    said = plain[1][what]
    assert f"needs {package}: pip install 'tf-wcd[{extra}]'. Received: no module '{module}'" in said


def test_commands_that_draw_say_so_before_they_work(plain):
    folder, found = plain
    for name, command in (("demo", "demo"), ("small", "train small"), ("drawn sample", "sample")):
        code, said = found[name]
        assert code == 1
        assert f"wcd {command} needs Matplotlib: pip install 'tf-wcd[plots]'." in said
    assert not {"demo", "runs", "samples.png"} & {path.name for path in folder.iterdir()}


def test_what_an_installed_package_lacks_is_said_as_it_is(monkeypatch, tmp_path):
    (tmp_path / "broken_peer.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extras.PACKAGES, "broken_peer", extras.Package("Broken", "plots"))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        extras.need("This", "broken_peer")
