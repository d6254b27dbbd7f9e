"""The sampling service: what row-wise randomness, gRPC and batching cost or gain, on a layer of 784 x 500 units."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import serving
import tf_wcd
from benchmarks.timing import interleaved, limit_row, row, seconds
from tf_wcd.export.chains import run_chain
from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.random import Source, batch_source, column_source, row_keys

VISIBLE, HIDDEN = 784, 500
STEPS = 100
CLIENTS = 32
# Between kinds of requests, because threads spin for a while after their work; and the first requests after it.
BETWEEN, WARM = 0.05, 3
# The settings that are recommended, and no others: waiting for a batch to fill is what they trade for throughput.
BATCHING = Path(serving.__file__).parent / "deploy" / "batching.config"


def model(visible: int = VISIBLE, hidden: int = HIDDEN) -> tf_wcd.RBMLayer:
    initializer = keras.initializers.RandomNormal(stddev=0.05, seed=0)
    rbm = tf_wcd.RBMLayer(hidden, kernel_initializer=initializer, seed=0)
    rbm.build((None, visible))
    return rbm


def one_key(keys: tf.Tensor) -> Source:
    """Numbers from one key for all rows."""
    return batch_source(keys[0])


def philox(keys: tf.Tensor) -> Source:
    """Numbers of TensorFlow's generator, from one seed for all rows."""
    return lambda draw, field: tf.random.stateless_uniform(tf.shape(field), tf.stack([tf.cast(draw, tf.int32), 7]))


def gibbs_steps(rows: int = 100, steps: int = STEPS) -> list[dict[str, Any]]:
    """A Gibbs step as it is served, against one with a single key."""
    machine = ExactSumMachine(model().machine())
    seeds = tf.range(rows, dtype=tf.int64)
    field = tf.zeros([rows, machine.hidden.width])

    def case(source: Callable[[tf.Tensor], Source]) -> tuple[Callable[[], Any], float]:
        run = tf.function(lambda keys: run_chain(machine, field, steps, source(keys)).visible, autograph=False)
        return lambda: run(row_keys(seeds)).numpy(), steps

    times = interleaved({source: case(source) for source in (column_source, one_key, philox)})
    work = f"one Gibbs step, {rows} rows, {VISIBLE} x {HIDDEN}, a seed for each row"
    return [
        row(work, times[column_source], "one key for all rows", times[one_key], 1.5, at_most=True),
        row(work, times[column_source], "TensorFlow's generator, one seed", times[philox], 1.5, at_most=True),
    ]


def in_turn(asked: Mapping[str, Callable[[], Any]], count: int, block: int = 20) -> dict[str, float]:
    """Median seconds of each of several short requests, made in turn: some of one kind, a pause, some of the next."""
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(-(-count // block)):
        for name, ask in asked.items():
            time.sleep(BETWEEN)
            for i in range(WARM + block):
                taken = seconds(ask)
                if i >= WARM:
                    times[name].append(taken)
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def server(base: Path, *flags: str, code: Path | None = None) -> Iterator[str]:
    """A server in a process of its own, perhaps with the code of another checkout; yields its address."""
    environment = {**os.environ, "PYTHONPATH": str(code)} if code is not None else None
    command = [sys.executable, "-m", "serving.server", "--port=-1", "--model_name=rbm", f"--model_base_path={base}"]
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=environment, cwd=code) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if match := re.search(r"Serving: gRPC port (\d+)", line):
                    break
            else:
                raise RuntimeError("The server did not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield f"127.0.0.1:{match[1]}"
        finally:
            process.terminate()


def against_in_process(base: Path) -> list[dict[str, Any]]:
    """Throughput of large requests and latency of small ones, against calling the SavedModel in this process."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (64, VISIBLE)).astype("float32")
    chain = {"visible": x, "seed": np.arange(64), "steps": np.full(64, STEPS, "int32")}
    signatures = tf.saved_model.load(str(base / "1")).signatures

    def here(name: str, **arrays: np.ndarray) -> Any:
        outputs = signatures[name](**{key: tf.constant(value) for key, value in arrays.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    with server(base) as address, serving.SamplerClient(address, "rbm") as client:
        large = interleaved(
            {
                "here": (lambda: here("gibbs", **chain), 1),
                "grpc": (lambda: client.predict("gibbs", **chain), 1),
            },
            repetitions=15,
        )
        small = in_turn(
            {"here": lambda: here("free_energy", visible=x[:1]), "grpc": lambda: client.free_energy(x[:1])}, 300
        )
    added = small["grpc"] - small["here"]
    return [
        row(
            f"64 rows, {STEPS} Gibbs steps through gRPC: throughput",
            large["grpc"],
            "the SavedModel in this process",
            large["here"],
            0.85,
        ),
        limit_row("free_energy of one row through gRPC: added latency, ms (median)", added * 1e3, 3, "in this process"),
    ]


def requests_per_second(address: str, length: float, steps: int) -> float:
    """Single-row requests of so many Gibbs steps that 32 clients at once get answered."""
    x = np.zeros([1, VISIBLE], "float32")
    counts = [0] * CLIENTS
    start = threading.Barrier(CLIENTS + 1)
    end = 0.0

    def ask(number: int) -> None:
        with serving.SamplerClient(address, "rbm") as client:
            client.gibbs(x, 1, seed=number)
            start.wait()
            while time.perf_counter() < end:
                client.gibbs(x, steps, seed=number)
                counts[number] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    end = time.perf_counter() + 3600
    start.wait()
    begin = time.perf_counter()
    end = begin + length
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def batching(base: Path, steps: int, length: float = 5.0, rounds: int = 3) -> list[dict[str, Any]]:
    """Many small clients with and without batching."""
    rates: dict[str, list[float]] = {"off": [], "on": []}
    print(f"{CLIENTS} clients, {steps} steps, {rounds} rounds of {length:g} s; batching: {batching_settings()}")
    with server(base) as off, server(base, "--enable_batching", f"--batching_parameters_file={BATCHING}") as on:
        for _ in range(rounds):
            for name, address in (("off", off), ("on", on)):
                rates[name].append(requests_per_second(address, length, steps))
    print("requests per second:", {name: [round(value, 1) for value in values] for name, values in rates.items()})
    work = f"{CLIENTS} clients, one row of {steps} Gibbs steps each: time per request"
    times = {name: 1 / statistics.median(values) for name, values in rates.items()}
    return [{**row(work, times["on"], "batching off", times["off"], 5), "settings": batching_settings()}]


def lone_requests(base: Path) -> list[dict[str, Any]]:
    """What a request that has no company pays for batching: it waits for nobody."""
    x = np.zeros([1, VISIBLE], "float32")
    rows = []
    flags = ("--enable_batching", f"--batching_parameters_file={BATCHING}")
    with (
        server(base) as off,
        server(base, *flags) as on,
        serving.SamplerClient(off, "rbm") as without,
        serving.SamplerClient(on, "rbm") as batched,
    ):
        for steps, count in ((1, 300), (10, 300), (100, 100)):
            asked = {
                "off": lambda n=steps: without.gibbs(x, n, seed=0),
                "on": lambda n=steps: batched.gibbs(x, n, seed=0),
            }
            times = in_turn(asked, count)
            added = 1e3 * (times["on"] - times["off"])
            work = f"one client, one row of {steps} Gibbs steps: added by batching, ms (median)"
            rows.append(limit_row(work, added, 2, f"batching off: {1e3 * times['off']:.2f} ms"))
    return rows


def batching_settings() -> str:
    """The settings of `BATCHING` in one line."""
    lines = [line.split("#")[0] for line in BATCHING.read_text().splitlines()]
    return re.sub(r" \{ value: (\w+) \}", r"=\1", ", ".join(line.strip() for line in lines if line.strip()))


def run() -> list[dict[str, Any]]:
    """All rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "rbm"
        serving.publish(model(), base, gibbs_steps=STEPS)
        rows = [*gibbs_steps(), *against_in_process(base), *lone_requests(base)]
        # 1000 steps is what `sample` does unless told otherwise; shorter requests spend more of their time on the way.
        return [*rows, *batching(base, 1000, length=12.0), *batching(base, STEPS)]


if __name__ == "__main__":
    from benchmarks.report import main

    main("serving", run)
