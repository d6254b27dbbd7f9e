"""``wcd bench``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from trainers.commands.command import FLAGS, Command, Outcome, list_flag

# What is measured against: modules of the extra `bench`.
PEERS = ("rbms", "sklearn", "torch")


def parts() -> tuple[str, ...]:
    """Names of the measurements, which are not installed with the package: none outside of the repository."""
    if importlib.util.find_spec("benchmarks") is None:
        return ()
    import benchmarks

    return benchmarks.PARTS


def define_flags() -> None:
    """Its flags."""
    list_flag("parts", (), parts(), f"Which measurements, of {', '.join(parts())}; all if not given.")


def check_installed(known: Sequence[str], peers: Sequence[str] = PEERS) -> None:
    """Raises ValueError if something that the measurements need is not there."""
    if not known:
        raise ValueError("The measurements are not installed with the package: run this in a clone of the repository.")
    missing = [module for module in peers if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"What is measured against is not installed: run `make bench`. Missing: {', '.join(missing)}")


def run() -> Outcome:
    """Does it."""
    check_installed(parts())
    command = [sys.executable, "-m", "benchmarks", *FLAGS.parts]
    return min(subprocess.run(command, stdout=sys.stderr if FLAGS.json else None).returncode, 1)


COMMAND = Command(
    "bench",
    "Measure against peers, as `make bench` does (about 18 minutes; needs the extra `bench`).",
    define_flags,
    run,
    ("wcd bench", "wcd bench --parts=training,likelihood"),
)
