"""How long evaluation takes: Parzen windows and annealed importance sampling, against their products and their peers.

    python -m benchmarks.likelihood                   # 10^5 samples x 10^4 points, and AIS of 784 x 500 units
    python -m benchmarks.likelihood --fraction 0.1    # a tenth of the samples

The competitors in a comparison run in turn, in one process; times are medians. Peers come with
``pip install -e ".[bench]"``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd.evaluation import annealed_log_partition, parzen_log_likelihood

SAMPLES, POINTS, DIMENSIONS, SIGMA = 100_000, 10_000, 784, 0.2
HIDDEN, CHAINS, TEMPERATURES = 500, 100, 1000
INSTALL = 'not installed: pip install -e ".[bench]"'

Row = dict[str, Any]


def medians(functions: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Median seconds of each function. They take turns, so that a slow spell of the machine meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()  # compiles
    for _ in range(repetitions):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def row(benchmark: str, what: str, seconds: float | None, ours: float, note: str = "") -> Row:
    ratio = None if seconds is None else seconds / ours
    return {"benchmark": benchmark, "what": what, "seconds": seconds, "times_ours": ratio, "note": note}


# Parzen windows


def binary_points(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = np.empty([rows, DIMENSIONS], "uint8")
    for i in range(0, rows, 1000):  # so that making them does not show in the peak of memory
        part = points[i : i + 1000]
        part[:] = rng.random(part.shape, dtype="float32") < 0.2
    return points


def parzen(fraction: float = 1.0, repetitions: int = 5) -> list[Row]:
    """Parzen windows against their matrix product, and against scikit-learn on a part of the points."""
    samples, test = binary_points(round(SAMPLES * fraction), 0), binary_points(POINTS, 1)
    name = f"Parzen, {len(samples)} samples x {len(test)} points x {DIMENSIONS}"
    # The same shapes as ours, which are also the fastest of those tried; whole products, so that none is skipped.
    blocks = [tf.constant(test[i : i + 2000].T.astype("float32")) for i in range(0, len(test), 2000)]
    product = tf.function(tf.matmul, autograph=False, jit_compile=True)

    def products() -> None:
        for i in range(0, len(samples), 1000):
            chunk = tf.constant(samples[i : i + 1000].astype("float32"))
            for block in blocks:
                product(chunk, block)

    seconds = medians({"ours": lambda: parzen_log_likelihood(samples, test, SIGMA), "product": products}, repetitions)
    ours = seconds["ours"]
    memory = parzen_memory(fraction)
    rows = [
        row(
            name,
            "tf_wcd",
            ours,
            ours,
            f"peak memory of the process {memory['peak']:.0f} MB, "
            f"of which {memory['call']:.0f} MB by the call; median of {repetitions}",
        ),
        row(name, "matrix product alone", seconds["product"], ours, "float32, compiled, in blocks of 1000 x 2000"),
    ]
    return [*rows, *scikit_learn(name, samples, test, ours)]


def scikit_learn(name: str, samples: np.ndarray, test: np.ndarray, ours: float, points: int = 10) -> list[Row]:
    """KernelDensity on a few points, as it comes and with one leaf for all samples.

    In so many dimensions its trees lose the sum among the bounds of their nodes: most values of the default, a k-d
    tree, are wrong by thousands of nats. With one leaf there are no bounds, all are right, and it is faster too.
    """
    try:
        from sklearn.neighbors import KernelDensity
    except ImportError:
        return [row(name, "scikit-learn KernelDensity", None, ours, INSTALL)]
    some = test[:points]
    expected = parzen_log_likelihood(samples, some, SIGMA, per_point=True)
    rows = []
    for what, options in (("default", {}), ("one leaf", {"leaf_size": len(samples)})):
        density = KernelDensity(bandwidth=SIGMA, **options).fit(samples)
        right = np.isclose(density.score_samples(some), expected, rtol=1e-5).sum()
        seconds = medians({"score": lambda density=density: density.score_samples(some)}, 3)["score"]
        note = f"scaled from {points} points ({seconds:.2f} s, median of 3), {right} of their values right"
        rows.append(row(name, f"scikit-learn KernelDensity, {what}", seconds * len(test) / points, ours, note))
    return rows


def parzen_memory(fraction: float) -> dict[str, float]:
    """Peak memory in MB of a process of its own that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.likelihood", "--memory-of-parzen", "--fraction", str(fraction)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def measure_parzen_memory(fraction: float) -> dict[str, float]:
    samples, test = binary_points(round(SAMPLES * fraction), 0), binary_points(POINTS, 1)
    before = peak_megabytes()
    parzen_log_likelihood(samples, test, SIGMA)
    after = peak_megabytes()
    return {"peak": after, "call": after - before}


def peak_megabytes() -> float:
    """Largest resident memory of this process so far (that of its parent is not counted), on Linux."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


# Annealed importance sampling


def random_rbm() -> tf_wcd.RBMLayer:
    rbm = tf_wcd.RBMLayer(HIDDEN, seed=0)
    rbm.build((None, DIMENSIONS))
    rng = np.random.default_rng(0)
    rbm.kernel.assign(rng.normal(0, 0.05, (DIMENSIONS, HIDDEN)))
    rbm.visible_bias.assign(rng.normal(-1, 0.5, DIMENSIONS))
    rbm.hidden_bias.assign(rng.normal(0, 0.5, HIDDEN))
    return rbm


@tf.function(jit_compile=True, autograph=False)
def products_of_gibbs(visible: tf.Tensor, kernel: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """The two products of each Gibbs step, and nothing else."""

    def step(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, 1e-3 * tf.matmul(tf.matmul(x, kernel), kernel, transpose_b=True)

    return tf.while_loop(lambda i, _: i < steps, step, [tf.constant(0), visible], parallel_iterations=1)[1]


def annealing(repetitions: int = 5) -> list[Row]:
    """AIS, forward as the peer does it, from the same base model."""
    rbm = random_rbm()
    name = f"AIS, {DIMENSIONS} x {HIDDEN} units, {TEMPERATURES} temperatures, {CHAINS} chains"
    base = tf.sigmoid(rbm.visible_bias).numpy()
    visible, kernel, steps = tf.zeros([CHAINS, DIMENSIONS]), tf.convert_to_tensor(rbm.kernel), tf.constant(TEMPERATURES)
    functions: dict[str, Callable[[], Any]] = {
        "ours": lambda: annealed_log_partition(rbm, base=base, chains=CHAINS, temperatures=TEMPERATURES, reverse=False),
        "product": lambda: products_of_gibbs(visible, kernel, steps).numpy(),
    }
    peer = peer_annealing(rbm)
    if peer is not None:
        functions["rbms"] = peer
    seconds = medians(functions, repetitions)
    ours = seconds["ours"]
    result = annealed_log_partition(rbm, base=base, seed=0)
    rows = [
        row(
            name,
            "tf_wcd",
            ours,
            ours,
            f"forward only; median of {repetitions}; log Z {result.lower:.2f} to {result.upper:.2f}",
        ),
        row(name, "its two products alone", seconds["product"], ours, "compiled, in a loop"),
    ]
    if peer is None:
        return [*rows, row(name, "rbms", None, ours, INSTALL)]
    return [*rows, row(name, "rbms", seconds["rbms"], ours, f"log Z {peer():.2f}")]


def peer_annealing(rbm: tf_wcd.RBMLayer) -> Callable[[], float] | None:
    """AIS of the package rbms on the same model, or ``None`` where it is not installed."""
    try:
        import torch
        from rbms.bernoulli_bernoulli.classes import BBRBM
        from rbms.partition_function.ais import compute_partition_function_ais
    except ImportError:
        return None
    tensors = [torch.tensor(np.asarray(v)) for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)]
    model = BBRBM(*tensors)
    return lambda: compute_partition_function_ais(CHAINS, TEMPERATURES, model)


# Both


def run(fraction: float = 1.0, repetitions: int = 5, only: str | None = None) -> list[Row]:
    """All rows. ``times_ours`` is a competitor's time over ours, from the same run."""
    rows = [] if only == "parzen" else annealing(repetitions)
    return rows if only == "ais" else [*rows, *parzen(fraction, repetitions)]


def table(rows: list[Row]) -> str:
    lines = [f"{'':64}{'seconds':>10}{'x ours':>9}  note"]
    for r in rows:
        seconds = "-" if r["seconds"] is None else f"{r['seconds']:.2f}"
        ratio = "-" if r["times_ours"] is None else f"{r['times_ours']:.2f}"
        lines += [r["benchmark"]] if r["what"] == "tf_wcd" else []
        lines.append(f"  {r['what']:62}{seconds:>10}{ratio:>9}  {r['note']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=1.0, help="part of the 10^5 Parzen samples")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", choices=["ais", "parzen"])
    parser.add_argument("--memory-of-parzen", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of_parzen:
        print(json.dumps(measure_parzen_memory(arguments.fraction)))
    else:
        print(table(run(arguments.fraction, arguments.repetitions, arguments.only)))


if __name__ == "__main__":
    main()
