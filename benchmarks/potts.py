"""Sequences of letters: 20 sites of 21 letters, drawn from a known chain, learned by ours and by `rbms` in equal time.

``python -m benchmarks.potts`` does what is not done yet. The truth is a Potts chain, whose neighbours interact and
whose one- and two-site frequencies are known exactly. Either library trains 100 binary hidden units on the same 20,000
sequences by PCD, for as many seconds of the processor, with rates that are chosen in the same way: three of them, on
another chain and with a third of the time. What counts is the correlation of frequencies in samples of the model with
the true ones: of one site, of two sites, and of two sites less what the single ones explain (connected).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np

import tf_wcd
from benchmarks.rbms_pcd import RbmsPCD
from benchmarks.record_file import RecordFile

RESULTS = Path(__file__).parent / "results"
SITES, LETTERS, HIDDEN, BATCH, MOMENTUM = 20, 21, 100, 100, 0.5
SEQUENCES, SAMPLES, GIBBS_STEPS = 20_000, 10_000, 300
RATES = (0.01, 0.03, 0.1)
SECONDS = 60.0
SEARCH_CHAIN, CHAIN = 5, 6


class Frequencies(NamedTuple):
    """Of one site ``[sites, letters]``, and of pairs of sites ``[sites, sites, letters, letters]``."""

    one: np.ndarray
    two: np.ndarray


class PottsChain:
    """A chain of letters with random fields and random interactions of neighbours.

    Args:
        seed: of both.
        interaction: standard deviation of the interactions.
    """

    def __init__(self, seed: int, interaction: float = 1.2) -> None:
        rng = np.random.default_rng(seed)
        self.fields = 0.7 * rng.normal(size=(SITES, LETTERS))
        self.couplings = interaction * rng.normal(size=(SITES - 1, LETTERS, LETTERS))
        # Messages from the right: what the sites behind a letter sum to.
        behind = np.zeros((SITES, LETTERS))
        for i in reversed(range(SITES - 1)):
            terms = self.couplings[i] + self.fields[i + 1] + behind[i + 1]
            behind[i] = np.logaddexp.reduce(terms, axis=1)
        first = self.fields[0] + behind[0]
        self.first = np.exp(first - np.logaddexp.reduce(first))
        steps = self.couplings + self.fields[1:, None, :] + behind[1:, None, :]
        self.steps = np.exp(steps - np.logaddexp.reduce(steps, axis=2, keepdims=True))

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Letters ``[rows, sites]``, drawn independently."""
        letters = np.zeros((rows, SITES), int)
        numbers = rng.random((rows, SITES))
        letters[:, 0] = np.searchsorted(np.cumsum(self.first), numbers[:, 0])
        for i in range(1, SITES):
            cumulative = np.cumsum(self.steps[i - 1], axis=1)[letters[:, i - 1]]
            letters[:, i] = (numbers[:, i, None] > cumulative).sum(axis=1)
        return np.minimum(letters, LETTERS - 1)

    def frequencies(self) -> Frequencies:
        """The exact ones."""
        one = [self.first]
        for step in self.steps:
            one.append(one[-1] @ step)
        two = np.zeros((SITES, SITES, LETTERS, LETTERS))
        for i in range(SITES):
            joint = np.diag(one[i])
            two[i, i] = joint
            for j in range(i + 1, SITES):
                joint = joint @ self.steps[j - 1]
                two[i, j], two[j, i] = joint, joint.T
        return Frequencies(np.array(one), two)


def one_hot(letters: np.ndarray) -> np.ndarray:
    """``[rows, sites]`` -> float32 ``[rows, sites * letters]``."""
    return np.eye(LETTERS, dtype="float32")[letters].reshape(len(letters), -1)


def frequencies_of(letters: np.ndarray) -> Frequencies:
    """Those of sequences."""
    x = one_hot(letters)
    two = (x.T @ x / len(x)).reshape(SITES, LETTERS, SITES, LETTERS).transpose(0, 2, 1, 3)
    return Frequencies(x.mean(axis=0).reshape(SITES, LETTERS), two)


def correlations(found: Frequencies, true: Frequencies) -> dict[str, float]:
    """Pearson's, over all letters of all sites, and of all pairs of different sites."""
    pairs = np.triu_indices(SITES, 1)

    def connected(frequencies: Frequencies) -> np.ndarray:
        return (frequencies.two - np.einsum("ia,jb->ijab", frequencies.one, frequencies.one))[pairs]

    def correlation(a: np.ndarray, b: np.ndarray) -> float:
        return round(float(np.corrcoef(a.ravel(), b.ravel())[0, 1]), 4)

    return {
        "one_site": correlation(found.one, true.one),
        "two_sites": correlation(found.two[pairs], true.two[pairs]),
        "connected": correlation(connected(found), connected(true)),
    }


class Training(Protocol):
    """A model that is trained for some updates at a time."""

    def train(self, updates: int) -> None:
        """Goes on."""

    def sample(self, rows: int) -> np.ndarray:
        """Letters ``[rows, sites]`` after `GIBBS_STEPS` steps from random ones."""


class Ours:
    """An `RBMLayer` of Potts units, centred."""

    def __init__(self, letters: np.ndarray, rate: float) -> None:
        self.x = one_hot(letters)
        self.rbm = tf_wcd.RBMLayer(
            HIDDEN,
            visible_type=tf_wcd.units.Potts(LETTERS),
            negative_phase="pcd",
            chains=BATCH,
            centered=True,
            seed=0,
        )
        self.rbm.compile(keras.optimizers.SGD(rate, momentum=MOMENTUM))
        self.rbm.start_at_means(self.x)

    def train(self, updates: int) -> None:
        self.rbm.fit(self.x, batch_size=BATCH, steps_per_epoch=updates, verbose=0)

    def sample(self, rows: int) -> np.ndarray:
        drawn = self.rbm.sample(rows, gibbs_steps=GIBBS_STEPS, seed=1).numpy()
        return drawn.reshape(rows, SITES, LETTERS).argmax(axis=2)


class Rbms:
    """The package `rbms`: its Potts-Bernoulli RBM, its own step and centred gradient, and torch's SGD."""

    def __init__(self, letters: np.ndarray, rate: float) -> None:
        import torch
        from rbms.potts_bernoulli.classes import PBRBM

        torch.manual_seed(0)
        self.data = torch.from_numpy(letters.astype("float32"))
        means = torch.from_numpy(frequencies_of(letters).one.clip(1e-4)).float()
        model = PBRBM(torch.randn(SITES, LETTERS, HIDDEN) * 0.01, means.log(), torch.zeros(HIDDEN))
        self.pcd = RbmsPCD(model, BATCH, rate, MOMENTUM)

    def train(self, updates: int) -> None:
        import torch

        with torch.no_grad():
            for _ in range(updates):
                self.pcd.update(self.data[torch.randint(len(self.data), (BATCH,))])

    def sample(self, rows: int) -> np.ndarray:
        import torch

        with torch.no_grad():
            model = self.pcd.model
            chains = model.init_chains(rows)
            for _ in range(GIBBS_STEPS):
                chains = model.sample_visibles(model.sample_hiddens(chains))
        return chains["visible"].numpy().astype(int)


METHODS: dict[str, Callable[[np.ndarray, float], Training]] = {"tf_wcd": Ours, "rbms": Rbms}


def run(method: str, rate: float, seconds: float, chain: int) -> dict[str, Any]:
    """Trains for some seconds of the processor, and returns what was found."""
    truth = PottsChain(chain)
    letters = truth.sample(SEQUENCES, np.random.default_rng([chain, 1]))
    start, updates, portion = time.process_time(), 0, 500
    training = METHODS[method](letters, rate)
    while time.process_time() - start < seconds:
        training.train(portion)
        updates += portion
    return {
        "updates": updates,
        **correlations(frequencies_of(training.sample(SAMPLES)), truth.frequencies()),
        "data": correlations(frequencies_of(letters), truth.frequencies()),
    }


def table(records: list[dict[str, Any]]) -> str:
    """Correlations with the truth, as Markdown; the first line is that of the training sequences themselves."""
    mine = [each for each in records if each["chain"] == CHAIN]
    lines = ["| | rate | updates | one site | two sites | two sites, connected |", "|---" * 6 + "|"]
    if mine:
        data = mine[0]["data"]
        lines.append(f"| the data | | | {data['one_site']:.3f} | {data['two_sites']:.3f} | {data['connected']:.3f} |")
    lines += [
        f"| {each['method']} | {each['rate']:g} | {each['updates']} | {each['one_site']:.3f} | "
        f"{each['two_sites']:.3f} | {each['connected']:.3f} |"
        for each in mine
    ]
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="which ones; all")
    parser.add_argument("--report", action="store_true", help="only the table of what there is")
    arguments = parser.parse_args()
    work = RecordFile(RESULTS / "potts.jsonl", run)
    if not arguments.report:
        for name in arguments.methods:
            tried = [work.record(method=name, rate=rate, seconds=SECONDS / 3, chain=SEARCH_CHAIN) for rate in RATES]
            best = max(tried, key=lambda each: each["connected"])
            work.record(method=name, rate=best["rate"], seconds=SECONDS, chain=CHAIN)
    print(table(work.read()))


if __name__ == "__main__":
    main()
