"""An outside battery of tests on the library's random numbers: dieharder, which Debian has as a package.

``python -m tools.random_battery`` runs the tests that are not done yet, each on a stream of its own, and prints a table
of all. It may be stopped at any time. Streams are words of 32 bits, the upper 16 bits of two numbers each:

- ``draws``: one draw after the other under one key.
- ``updates``: the first draw of one update of a training after the other, as large as a layer's.
- ``rows``: the rows of a server, seeds 0, 1, 2, ...
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.random import key_of, row_keys, row_uniform, uniform
from trainers.store.records import Records

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "dieharder.jsonl"
VERDICTS = ("PASSED", "WEAK", "FAILED")
# By dieharder's numbers: birthdays, OPERM5, ranks of matrices, ones in bytes, parking lot, spheres, runs, craps, the
# first three of NIST's suite, bits, minimum distance, permutations, lagged sums, Kolmogorov and Smirnov, pairs of bits.
TESTS = (0, 1, 2, 8, 10, 11, 12, 15, 16, 100, 101, 102, 200, 201, 202, 203, 204, 209)
LENGTHS = {200: 3, 201: 3, 202: 5, 203: 7}  # of tuples, where a test asks for one


def draws() -> Iterator[tf.Tensor]:
    key = tf.constant([12, 34], tf.uint32)
    # A tensor: every Python number would be traced, and kept, by itself.
    return (_draw(key, tf.constant(number)) for number in itertools.count())


def updates() -> Iterator[tf.Tensor]:
    seed = tf.constant([7, 0], tf.int64)
    return (_update(key_of(seed + tf.constant([0, number], tf.int64))) for number in itertools.count())


def rows() -> Iterator[tf.Tensor]:
    return (_rows(tf.range(start, start + 1024, dtype=tf.int64)) for start in itertools.count(step=1024))


@tf.function
def _draw(key: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    return uniform(key, number, [2**20])


@tf.function
def _update(key: tf.Tensor) -> tf.Tensor:
    return uniform(key, 0, [200, 500])


@tf.function
def _rows(seeds: tf.Tensor) -> tf.Tensor:
    return row_uniform(row_keys(seeds), 0, 500)


STREAMS: dict[str, Callable[[], Iterator[tf.Tensor]]] = {"draws": draws, "updates": updates, "rows": rows}


def words(numbers: np.ndarray) -> bytes:
    """The upper 16 bits of uniform numbers, two in a word."""
    return (numbers.reshape(-1) * 2.0**16).astype("uint16").tobytes()


def run(stream: str, test: int) -> list[dict[str, Any]]:
    """The results of one test of dieharder on a stream, one for each line of its table."""
    command = ["dieharder", "-g", "200", "-d", str(test), "-D", "default", "-c", ","]
    if test in LENGTHS:
        command += ["-n", str(LENGTHS[test])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            for numbers in STREAMS[stream]():
                process.stdin.write(words(numbers.numpy()))
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        text = process.stdout.read().decode()
    return list(results(text, stream, test))


def results(text: str, stream: str, test: int) -> Iterator[dict[str, Any]]:
    """The lines of dieharder's table: name, tuple, samples, repetitions, p and what it makes of it."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 6 and parts[-1] in VERDICTS:
            yield {
                "stream": stream,
                "test": test,
                "name": parts[0],
                "tuple": int(parts[1]),
                "samples": int(parts[2]),
                "repetitions": int(parts[3]),
                "p": float(parts[4]),
                "verdict": parts[5],
            }


def table(records: list[dict[str, Any]]) -> str:
    """How many results there are of each kind, and those that are not PASSED, as Markdown."""
    lines = ["| stream | results | passed | weak | failed |", "|---|---|---|---|---|"]
    for stream in STREAMS:
        verdicts = [each["verdict"] for each in records if each["stream"] == stream]
        counts = [verdicts.count(verdict) for verdict in VERDICTS]
        lines.append(f"| {stream} | {len(verdicts)} | {' | '.join(map(str, counts))} |")
    for each in records:
        if each["verdict"] != "PASSED":
            lines.append(
                f"\n{each['stream']}, {each['name']} ({each['tuple']}): p = {each['p']:.3g}, {each['verdict']}"
            )
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--tests", nargs="+", type=int, default=TESTS, help="dieharder's numbers of tests")
    parser.add_argument("--records", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--report", action="store_true", help="only the table of what there is")
    arguments = parser.parse_args()
    if shutil.which("dieharder") is None:
        sys.exit("dieharder is not there: install it, on Debian by `apt-get install dieharder`.")

    records = Records(arguments.records)
    for test, stream in itertools.product(arguments.tests, arguments.streams):
        if arguments.report or any((each["stream"], each["test"]) == (stream, test) for each in records.read()):
            continue
        found = run(stream, test)
        records.append(*found)
        print(stream, test, [(each["tuple"], each["p"], each["verdict"]) for each in found], flush=True)
    print(table(records.read()))


if __name__ == "__main__":
    main()
