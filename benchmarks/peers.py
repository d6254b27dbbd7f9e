"""The same updates done by others: a plain NumPy loop, `rbms`, scikit-learn, and the matrix products alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LEARNING_RATE, MOMENTUM = 0.01, 0.9


def numpy_updates(x: np.ndarray, hidden: int, steps: int, updates: int) -> Callable[[], None]:
    """WCD_k with momentum on the whole of x at each update, written as one would in NumPy, in float32."""
    rng = np.random.default_rng(0)
    x = x.astype("float32")
    rows, visible = x.shape
    W = rng.normal(0, 0.01, (visible, hidden)).astype("float32")
    b, c = np.zeros(visible, "float32"), np.zeros(hidden, "float32")
    velocity = [np.zeros_like(parameter) for parameter in (W, b, c)]

    def sigmoid(field: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-field))

    def sample(mean: np.ndarray) -> np.ndarray:
        return (rng.random(mean.shape, dtype="float32") < mean).astype("float32")

    def run() -> None:
        for _ in range(updates):
            data_mean = sigmoid(x @ W + c)
            h = sample(data_mean)
            for _ in range(steps):
                y = sample(sigmoid(h @ W.T + b))
                field = y @ W + c
                h = sample(sigmoid(field))
            negative_free_energy = y @ b + np.logaddexp(0, field).sum(1)
            w = np.exp(negative_free_energy - negative_free_energy.max())
            w = (w / w.sum())[:, None]
            mean = sigmoid(field)
            gradient = (
                x.T @ data_mean / rows - (w * y).T @ mean,
                x.mean(0) - (w * y).sum(0),
                data_mean.mean(0) - (w * mean).sum(0),
            )
            for parameter, speed, g in zip((W, b, c), velocity, gradient, strict=True):
                speed *= MOMENTUM
                speed += LEARNING_RATE * g
                parameter += speed

    return run


def rbms_updates(x: np.ndarray, hidden: int, steps: int, updates: int, batch: int | None, persistent: bool) -> Any:
    """CD_k or PCD_k of the `rbms` library: its own training step and torch's SGD, without files and progress bar."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    torch.manual_seed(0)
    data = torch.from_numpy(x.astype("float32"))
    ones = torch.ones(len(data))
    model = BBRBM(torch.randn(x.shape[1], hidden) * 0.01, torch.zeros(x.shape[1]), torch.zeros(hidden))
    model.init_grad()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, maximize=True)
    chains = model.init_chains(batch or len(data))

    def run() -> None:
        nonlocal chains
        with torch.no_grad():
            for _ in range(updates):
                if batch is None:
                    rows, weights = data, ones
                else:
                    index = torch.randint(len(data), (batch,))
                    rows, weights = data[index], ones[:batch]
                if not persistent:
                    chains = model.init_chains(len(rows), weights=weights, start_v=rows)
                optimizer.zero_grad(set_to_none=False)
                chains, _ = fit_batch_pcd(
                    batch=(rows, weights),
                    parallel_chains=chains,
                    params=model,
                    gibbs_steps=steps,
                    beta=1.0,
                    centered=False,
                )
                optimizer.step()

    return run


def best_rbms_threads(make: Callable[[], Callable[[], None]]) -> int:
    """The number of torch threads, one or all cores, with which `rbms` is faster."""
    import os

    import torch

    from benchmarks.timing import seconds

    times = {}
    for threads in {1, os.cpu_count() or 1}:
        torch.set_num_threads(threads)
        run = make()
        run()
        times[threads] = min(seconds(run) for _ in range(3))
    best = min(times, key=lambda threads: times[threads])
    torch.set_num_threads(best)
    return best


def sklearn_updates(x: np.ndarray, hidden: int, batch: int) -> tuple[Callable[[], Any], int]:
    """scikit-learn's `BernoulliRBM` (PCD_1 without momentum) in float32, one pass over x; and its number of updates."""
    from sklearn.neural_network import BernoulliRBM

    rbm = BernoulliRBM(hidden, learning_rate=LEARNING_RATE, batch_size=batch, n_iter=1, random_state=0)
    data = x.astype("float32")
    return lambda: rbm.fit(data), -(-len(data) // batch)


def product_floor(batch: int, visible: int, hidden: int, updates: int) -> Callable[[], None]:
    """The five matrix products of an update and nothing else, in NumPy's BLAS with its results written in place."""
    rng = np.random.default_rng(0)
    x, h, W = (rng.random(shape, dtype="float32") for shape in ((batch, visible), (batch, hidden), (visible, hidden)))
    on_hidden, on_visible = np.empty_like(h), np.empty_like(x)
    gradient = np.empty_like(W)

    def run() -> None:
        for _ in range(updates):
            np.matmul(x, W, out=on_hidden)  # data to hidden
            np.matmul(h, W.T, out=on_visible)  # hidden to visible
            np.matmul(x, W, out=on_hidden)  # visible to hidden
            np.matmul(x.T, h, out=gradient)  # the two halves of the gradient
            np.matmul(x.T, h, out=gradient)

    return run


def compiled_products(batch: int, visible: int, hidden: int, updates: int) -> Callable[[], Any]:
    """The same products as XLA computes them in an update, merged into three, and nothing else."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    W, x, h = (
        tf.constant(rng.random(shape, dtype="float32"))
        for shape in ((visible, hidden), (2 * batch, visible), (batch, hidden))
    )

    @tf.function(jit_compile=True, autograph=False)
    def run(kernel: tf.Tensor, x: tf.Tensor, h: tf.Tensor) -> Any:
        def step(i: tf.Tensor, h: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
            on_visible = tf.matmul(h, kernel, transpose_b=True)  # hidden to visible
            on_hidden = tf.matmul(x + 1e-30 * h[0, 0], kernel)  # data and points to hidden; h keeps it inside the loop
            gradient = tf.matmul(x, on_hidden, transpose_a=True)
            return i + 1, on_hidden[:batch], on_visible, gradient

        # All results go round, so that no part of a product is left out.
        start = [0, h, tf.zeros([batch, visible]), tf.zeros([visible, hidden])]
        return tf.while_loop(lambda i, *_: i < updates, step, start)

    return lambda: run(W, x, h)[-1].numpy()
