"""Tries the lowest and the highest versions of every direct dependency that pyproject.toml allows: ``make bounds``.

Each time the package, with the extras that users run (`EXTRAS`), is installed into an empty environment, and
`bounds_smoke.py` is run there. Lowest versions are those named by ``>=``; highest are what pip finds today.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("serving", "tune", "plots", "tensorboard", "datasets")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?>=(?P<lowest>[\d.]+),<(?P<above>[\d.]+)")


def requirements() -> dict[str, str]:
    """Lowest allowed version of every direct dependency; each must have a bound on both sides."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = {}
    for line in [*project["dependencies"], *(r for extra in EXTRAS for r in project["optional-dependencies"][extra])]:
        match = REQUIREMENT.fullmatch(line)
        if match is None:
            sys.exit(f"{line!r} of pyproject.toml must have the form name>=lowest,<above")
        lowest[match["name"]] = match["lowest"]
    return lowest


def attempt(title: str, constraints: list[str], folder: Path) -> bool:
    """Installs under the constraints, and runs the smoke test; says which versions there are."""
    print(f"{title} versions, Python {sys.version.split()[0]}", flush=True)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    (folder / "constraints.txt").write_text("\n".join(constraints) + "\n")
    # Nothing of this environment may help.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "--constraint", folder / "constraints.txt", f"{ROOT}[{','.join(EXTRAS)}]"]
    if subprocess.run(install, cwd=folder, env=environment).returncode:
        print(f"  {title}: pip finds no set of versions", flush=True)
        return False
    # -P: nothing but what is installed is on the path.
    smoke = [python, "-P", ROOT / "tools" / "bounds_smoke.py", *requirements()]
    return subprocess.run(smoke, cwd=folder, env=environment).returncode == 0


def main() -> None:
    lowest = [f"{name}=={version}" for name, version in requirements().items()]
    wanted = {"lowest": lowest, "highest": []}
    fine = []
    for title in sys.argv[1:] or wanted:
        with tempfile.TemporaryDirectory() as folder:
            fine.append(attempt(title, wanted[title], Path(folder)))
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
