"""The service against that of another checkout of this repository: the same requests to both, in turn.

python -m benchmarks.serving_versions ../before
"""

from __future__ import annotations

import functools
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import serving
from benchmarks.report import table
from benchmarks.serving import BATCHING, CLIENTS, VISIBLE, in_turn, model, requests_per_second, server
from benchmarks.timing import row

HERE = Path(__file__).parent.parent
BATCHED = ("--enable_batching", f"--batching_parameters_file={BATCHING}")
AT_MOST = 1.05  # of the other's time


def alone(here: str, other: str, what: str, requests: int = 400) -> list[dict[str, Any]]:
    """Median times of single requests of one client, by the addresses of the two servers."""
    x = np.random.default_rng(0).integers(0, 2, (64, VISIBLE)).astype("float32")
    rows = []
    with serving.SamplerClient(here, "rbm") as ours, serving.SamplerClient(other, "rbm") as theirs:
        for name, ask, count in (
            ("free_energy of one row", lambda client: client.free_energy(x[:1]), requests),
            ("one row, 1 Gibbs step", lambda client: client.gibbs(x[:1], 1, seed=0), requests),
            ("one row, 10 Gibbs steps", lambda client: client.gibbs(x[:1], 10, seed=0), requests),
            ("one row, 100 Gibbs steps", lambda client: client.gibbs(x[:1], 100, seed=0), requests // 4),
            ("64 rows, 100 Gibbs steps", lambda client: client.gibbs(x, 100, seed=0), requests // 20),
        ):
            asked = {"ours": functools.partial(ask, ours), "theirs": functools.partial(ask, theirs)}
            times = in_turn(asked, count, min(20, count // 10))
            rows.append(row(f"{name}, {what}", times["ours"], "before", times["theirs"], AT_MOST, at_most=True))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def many(here: str, other: str, what: str, steps: int, length: float = 4.0, rounds: int = 3) -> list[dict[str, Any]]:
    """Time per request with many clients."""
    rates: dict[str, list[float]] = {here: [], other: []}
    for _ in range(rounds):
        for address, values in rates.items():
            values.append(requests_per_second(address, length, steps))
    times = {address: 1 / statistics.median(values) for address, values in rates.items()}
    work = f"{CLIENTS} clients, one row of {steps} Gibbs steps each, {what}"
    rows = [row(work, times[here], "before", times[other], AT_MOST, at_most=True)]
    print(table(rows).splitlines()[-1], flush=True)
    return rows


def run(other: Path) -> list[dict[str, Any]]:
    """All rows."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "rbm"
        serving.publish(model(), base, gibbs_steps=100)
        for flags, what in (((), "batching off"), (BATCHED, "batching on")):
            with ExitStack() as stack:
                ours, theirs = (stack.enter_context(server(base, *flags, code=code)) for code in (HERE, other))
                rows += alone(ours, theirs, what)
                for steps in (1, 100):
                    rows += many(ours, theirs, what, steps)
    return rows


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "serving" / "server.py").exists():
        sys.exit(f"Pass the folder of another checkout of this repository. Received: {sys.argv[1:]}")
    print("\n" + table(run(Path(sys.argv[1]).resolve())))
