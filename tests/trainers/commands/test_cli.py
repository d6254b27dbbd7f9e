"""The command line: exit codes, --json, evaluation and samples of saved models, and Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
from absl import flags

import tf_wcd
from trainers import cli
from trainers.commands import bench

RUN = ["train", "small", "--problem=BS09", "--hidden=9", "--updates=1000000", "--out=runs"]


@pytest.fixture
def wcd(capfd):
    """Runs a command in this process; returns exit code, standard output and standard error."""
    before = set(flags.FLAGS)

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        for flag in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, flag)
        flags.FLAGS.unparse_flags()
        return stop.value.code, *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "rbm.keras"
    rbm = tf_wcd.RBMLayer(5, visible_type="spin", hidden_type="spin", seed=0, kernel_initializer="glorot_uniform")
    rbm.build((None, 9))
    rbm.save(path)
    return path


def test_evaluate_is_what_the_library_says(wcd, model):
    code, out, err = wcd("evaluate", f"--model={model}", "--data=BS09", "--json")
    assert code == 0
    found = json.loads(out)
    states, probabilities = tf_wcd.datasets.load("BS09")
    rbm = keras.models.load_model(model)
    assert found["kl"] == pytest.approx(tf_wcd.evaluation.kl_divergence(rbm, 2 * states - 1, probabilities))
    assert 0 < found["mass"] < 1
    assert "KL from BS09" in err


def test_bench_says_what_is_missing():
    with pytest.raises(ValueError, match=r"run `make bench`\. Missing: no_such_peer"):
        bench.check_installed(bench.parts(), ("json", "no_such_peer"))
    with pytest.raises(ValueError, match="in a clone of the repository"):
        bench.check_installed(())


def test_samples_of_a_saved_model(wcd, model, tmp_path):
    arguments = f"--model={model}", "--count=6", "--gibbs_steps=20", "--seed=3"
    code, out, _ = wcd("sample", *arguments, f"--npy={tmp_path}/s.npy", f"--png={tmp_path}/s.png", "--json")
    assert code == 0
    truth = keras.models.load_model(model).sample(6, gibbs_steps=20, seed=3)
    np.testing.assert_array_equal(json.loads(out)["samples"], truth)
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), truth)
    assert (tmp_path / "s.png").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate", "--model=x.keras"], 2, "--data"),
        (["evaluate", "--model=x.keras", "--data=BS10"], 2, "BS10"),
        (["sample", "--count=0"], 2, "count"),
        (["sample", "--cuont=3"], 2, "cuont"),
        (["bench", "training"], 2, "Unexpected arguments: training"),
        (["evaluate", "--model=x.keras", "--data=BS09"], 1, "Received: x.keras"),
        (["train", "images", "--method=pcd", "--minimum_ess=0.5"], 1, "Received: --method=PCD --minimum_ess=0.5"),
        (["reproduce", "--stage=tabel"], 2, "--stage=['tabel']: must be some of table, best"),
        (["reproduce", "--problems=BS09,BS25"], 2, "must be some of BS09, BS16"),
        (["reproduce", "--protocol=short"], 1, "needs another folder. Received: --out=trainers/results"),
        (["bench", "--parts=speed"], 2, "must be some of training, weights, large_layers, first_fit"),
        (["train", "small", "--method=exact", "--gibbs_steps=10"], 1, "leave `gibbs_steps` at 1. Received: 10"),
        (["train", "dbn", "--parts=sleep"], 2, "must be some of classifier, few_labels"),
        ([], 2, "usage: wcd"),
    ],
)
def test_exit_codes(wcd, arguments, code, message):
    found, out, err = wcd(*arguments)
    assert found == code
    assert message in err
    assert not out


def test_a_model_of_another_width_is_refused(wcd, model):
    code, _, err = wcd("evaluate", f"--model={model}", "--data=BS16")
    assert code == 1
    assert "BS16 has 16 columns. Received: a model of 9 visible units" in err


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_has_flags_and_examples_that_can_be_parsed(wcd, command):
    code, out, _ = wcd(*command.split(), "--help")
    assert code == 0
    known = set(re.findall(r"^  --(\w+)=", out, re.MULTILINE))
    assert "json" in known
    examples = re.findall(r"^  (wcd .*)$", out, re.MULTILINE)
    assert examples
    for example in examples:
        assert example.startswith(f"wcd {command}")
        assert set(re.findall(r" --(\w+)", example)) <= known


def test_help_does_not_wait_for_tensorflow():
    for arguments in (["--help"], ["train", "small", "--help"], ["reproduce", "--stage=x"]):
        code = (
            "import sys; from trainers import cli\n"
            f"try: cli.main({arguments})\n"
            "except SystemExit: print({'tensorflow', 'keras'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == "set()", done.stderr


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-m", "trainers.cli", *RUN],
        cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupted(folder):
    """A run that was stopped by Ctrl-C after its first line of progress: exit code and standard error."""
    process = start(folder)
    assert "updates/s" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    code, err = interrupted(tmp_path)
    assert code == 130, err
    assert "What was done is kept in runs" in err
    assert f"To go on where it was: wcd {' '.join(RUN)}" in err
    assert "Traceback" not in err
    (saved,) = (tmp_path / "runs" / "checkpoints").glob("*.npz")
    assert 0 < int(saved.name.split(".")[-2]) < 200
    keras.models.load_model(saved.with_suffix(".keras"))


@pytest.mark.slow
def test_a_run_goes_on_after_ctrl_c_to_the_same_result(tmp_path):
    records = []
    for name in ("whole", "in_two"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "in_two":
            assert interrupted(folder)[0] == 130
        _, err = start(folder).communicate(timeout=600)
        (line,) = (folder / "runs" / "small.jsonl").read_text().splitlines()
        records.append({**json.loads(line), "seconds": None, "date": None})
        assert not list((folder / "runs" / "checkpoints").glob("*")), err
    assert records[0] == records[1]
