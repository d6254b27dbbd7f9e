"""Trainings that the benchmark of time to quality compares: ours, and those of the peers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np

import tf_wcd
from benchmarks.rbms_pcd import RbmsPCD
from tf_wcd import negative_phases

BATCH, HIDDEN, MOMENTUM = 100, 500, 0.5


class Training(Protocol):
    """A model that is trained pass by pass."""

    def epoch(self, x: np.ndarray, rate: float) -> None:
        """One pass over images of 0 and 1."""

    def model(self) -> tf_wcd.RBMLayer:
        """What it has learned."""


def _layer(kernel: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray) -> tf_wcd.RBMLayer:
    """A layer of units of 0 and 1 with these parameters, ``kernel`` being ``[visible, hidden]``."""
    rbm = tf_wcd.RBMLayer(HIDDEN)
    rbm.build((None, len(visible_bias)))
    rbm.kernel.assign(kernel)
    rbm.visible_bias.assign(visible_bias)
    rbm.hidden_bias.assign(hidden_bias)
    return rbm


@dataclasses.dataclass(frozen=True)
class Method:
    """One way to train.

    Attributes:
        start: makes an untrained model from images and a seed.
        rates: learning rates to choose from, each three times the one before.
    """

    start: Callable[[np.ndarray, int], Training]
    rates: tuple[float, ...]


class Ours:
    """An `RBMLayer`, centred; every pass is one `fit`."""

    def __init__(
        self, phase: str, x: np.ndarray, seed: int, hidden: str = "bernoulli", chains: int = BATCH, gibbs_steps: int = 1
    ) -> None:
        options: dict[str, Any] = {"observers": 0, "minimum_ess": 0.5} if phase == "jpcd" else {}
        self.rbm = tf_wcd.RBMLayer(
            HIDDEN,
            hidden_type=hidden,
            negative_phase=negative_phases.get(phase, chains=chains, gibbs_steps=gibbs_steps, **options),
            centered=True,
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=seed),
            seed=seed,
        )
        self.rbm.build((None, x.shape[1]))
        self.rbm.start_at_means(x)
        self.rbm.compile(keras.optimizers.SGD(0.01, momentum=MOMENTUM))

    def epoch(self, x: np.ndarray, rate: float) -> None:
        self.rbm.optimizer.learning_rate.assign(rate)
        self.rbm.fit(x, batch_size=BATCH, verbose=0)

    def model(self) -> tf_wcd.RBMLayer:
        return self.rbm


class Averaged(Ours):
    """The same, and what is judged is a moving average of the parameters (Polyak and Juditsky 1992).

    Keras' ``use_ema=True`` puts the average into the model at the end of each `fit`, which here is a pass: the next one
    would go on from it. So the average is kept here, over windows of `WINDOW` updates.
    """

    WINDOW, MOMENTUM = 100, 0.9  # the average reaches back over about 1000 updates

    def __init__(self, phase: str, x: np.ndarray, seed: int, **options: Any) -> None:
        super().__init__(phase, x, seed, **options)
        self.average = self._parameters()

    def epoch(self, x: np.ndarray, rate: float) -> None:
        self.rbm.optimizer.learning_rate.assign(rate)
        windows = max(1, len(x) // (BATCH * self.WINDOW))
        averaging = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: self._add())
        self.rbm.fit(x, batch_size=BATCH, steps_per_epoch=self.WINDOW, epochs=windows, callbacks=[averaging], verbose=0)

    def _parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rbm.kernel.numpy(), self.rbm.visible_bias.numpy(), self.rbm.hidden_bias.numpy()

    def _add(self) -> None:
        pairs = zip(self.average, self._parameters(), strict=True)
        kernel, visible, hidden = (self.MOMENTUM * old + (1 - self.MOMENTUM) * new for old, new in pairs)
        self.average = kernel, visible, hidden

    def model(self) -> tf_wcd.RBMLayer:
        return _layer(*self.average)


class Rbms:
    """PCD of the package `rbms`, with its own step, its centred gradient and torch's SGD."""

    def __init__(self, x: np.ndarray, seed: int) -> None:
        import torch
        from rbms.bernoulli_bernoulli.classes import BBRBM

        torch.manual_seed(seed)
        means = torch.from_numpy(np.clip(x.mean(0), 1e-3, 1 - 1e-3).astype("float32"))
        model = BBRBM(torch.randn(x.shape[1], HIDDEN) * 0.01, torch.logit(means), torch.zeros(HIDDEN))
        self.pcd = RbmsPCD(model, BATCH, 0.01, MOMENTUM)

    def epoch(self, x: np.ndarray, rate: float) -> None:
        import torch

        for group in self.pcd.optimizer.param_groups:
            group["lr"] = rate
        data = torch.from_numpy(x)
        with torch.no_grad():
            for rows in torch.randperm(len(x)).split(BATCH):
                self.pcd.update(data[rows])

    def model(self) -> tf_wcd.RBMLayer:
        model = self.pcd.model
        return _layer(model.weight_matrix.numpy(), model.vbias.numpy(), model.hbias.numpy())


class ScikitLearn:
    """scikit-learn's `BernoulliRBM`; it has neither momentum nor centring."""

    def __init__(self, x: np.ndarray, seed: int) -> None:
        from sklearn.neural_network import BernoulliRBM

        self.rbm = BernoulliRBM(HIDDEN, batch_size=BATCH, random_state=seed)
        self.rng = np.random.default_rng(seed)
        self.rbm.partial_fit(x[:BATCH])
        means = np.clip(x.mean(0), 1e-3, 1 - 1e-3)
        self.rbm.intercept_visible_[:] = np.log(means / (1 - means))

    def epoch(self, x: np.ndarray, rate: float) -> None:
        self.rbm.learning_rate = rate
        order = self.rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            self.rbm.partial_fit(x[order[start : start + BATCH]])

    def model(self) -> tf_wcd.RBMLayer:
        return _layer(self.rbm.components_.T, self.rbm.intercept_visible_, self.rbm.intercept_hidden_)


def _ours(phase: str, kind: type[Ours] = Ours, **options: Any) -> Callable[[np.ndarray, int], Training]:
    return lambda x, seed: kind(phase, x, seed, **options)


METHODS = {
    "pcd": Method(_ours("pcd"), (0.03, 0.1, 0.3)),
    "jpcd": Method(_ours("jpcd"), (0.03, 0.1, 0.3)),
    "pt": Method(_ours("pt"), (0.03, 0.1, 0.3)),
    "ptt": Method(_ours("ptt"), (0.03, 0.1, 0.3)),
    "pcd, 500 chains": Method(_ours("pcd", chains=500), (0.03, 0.1, 0.3)),
    "pcd, k = 5": Method(_ours("pcd", gibbs_steps=5), (0.03, 0.1, 0.3)),
    "pcd, averaged": Method(_ours("pcd", Averaged), (0.03, 0.1, 0.3)),
    "pcd, ReLU hidden": Method(_ours("pcd", hidden="relu"), (0.003, 0.01, 0.03)),
    "pcd, dReLU hidden": Method(_ours("pcd", hidden="drelu"), (0.003, 0.01, 0.03)),
    "rbms": Method(Rbms, (0.3, 0.9, 2.7)),
    "BernoulliRBM": Method(ScikitLearn, (0.03, 0.1, 0.3)),
}
