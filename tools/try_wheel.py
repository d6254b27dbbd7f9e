"""Installs the wheel of a folder into an empty environment without extras, and trains for a step: ``make dist``."""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

STEP = """
import importlib.util
import numpy as np, tf_wcd, serving, trainers.cli
brought = [name for name in ("matplotlib", "scipy", "sklearn", "tensorboard") if importlib.util.find_spec(name)]
assert not brought, f"a plain installation brings {brought}, which extras are for"
rbm = tf_wcd.RBMLayer(3, negative_phase="wcd", seed=0)
rbm.compile("sgd")
rbm.build((None, 4))
before = rbm.kernel.numpy().copy()
loss = rbm.train_on_batch(np.eye(4, dtype="float32"))
assert np.isfinite(loss).all() and (rbm.kernel.numpy() != before).any()
rbm.save("rbm.keras")
rbm.export("saved_model")
print("tf_wcd", tf_wcd.__version__, "from", tf_wcd.__file__)
"""
NEEDED = ("tf_wcd/py.typed", "trainers/studies/dbn/study.py", "serving/page.html", "serving/deploy/kubernetes.yaml")


def main(folder: Path) -> None:
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = [name for name in NEEDED if name not in names]
    strangers = {name.split("/")[0] for name in names} - {"tf_wcd", "trainers", "serving"}
    results = {name for name in names if name.startswith("trainers/results")}
    if missing or results or any(not name.endswith(".dist-info") for name in strangers):
        sys.exit(f"{wheel} lacks {missing}, or has too much: {sorted(strangers | results)}")
    with tempfile.TemporaryDirectory() as empty:
        venv.create(Path(empty, "venv"), with_pip=True)
        python = Path(empty, "venv", "bin", "python")
        # Nothing of this environment may help.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
        subprocess.run(install, cwd=empty, env=environment, check=True)
        for command in ([python, "-c", STEP], [python.with_name("wcd"), "--help"]):
            done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{command[1]} failed:\n{done.stderr}")
            print(done.stdout.splitlines()[0])
    print(f"{wheel.name} ({wheel.stat().st_size // 1024} kB) and {sdist.name} are fine")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
