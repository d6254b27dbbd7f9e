"""The pictures of the pages: ``python -m docs.tools.draw plots``, ``mixing``, ``gradients`` and ``tensorboard``.

The last one trains on MNIST and needs Chromium; each takes about a minute on 2 cores.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import keras
import numpy as np
from matplotlib import image

import tf_wcd
from tests.support.browser import browsing
from tf_wcd import plots
from trainers.studies import demo

IMAGES = Path(__file__).parents[1] / "images"
EPOCHS = 50
# Of the cards in TensorBoard, those in the picture.
TAGS = "samples|filters|free_energy|training"
CLOSE_SETTINGS = "document.querySelector('button.settings-button')?.click()"


def draw_plots() -> None:
    """Every function of `tf_wcd.plots` on Bars and Stripes: curves, probabilities, samples, filters."""
    states, probabilities = tf_wcd.datasets.load("BS16")
    curves, models = {}, {}
    for phase in demo.PHASES:
        rbm, history = demo.train("BS16", phase, EPOCHS, seed=0, verbose=0)
        updates = [(epoch + 1) * demo.UPDATES_PER_EPOCH for epoch, _, _ in history]
        curves[f"{phase.upper()}_1"] = updates, [kl for _, kl, _ in history]
        models[f"{phase.upper()}_1"] = np.exp(tf_wcd.evaluation.log_prob(rbm, 2 * states - 1))
    samples = (rbm.sample(40, gibbs_steps=500, seed=0).numpy() + 1) / 2
    sheets = [
        plots.compare_training(probabilities, curves, models, "compare_training: Bars and Stripes, 80 hidden spins"),
        plots.image_sheet(samples, (4, 4), columns=20, title="image_sheet: samples of BCD_1"),
        plots.image_sheet(rbm.kernel.numpy().T, (4, 4), columns=16, signed=True, title="image_sheet: filters of BCD_1"),
    ]
    rows = [plots.pixels(sheet) for sheet in sheets]
    width = max(row.shape[1] for row in rows)
    whole = [np.pad(row, ((10, 10), (0, width - row.shape[1]), (0, 0)), constant_values=255) for row in rows]
    image.imsave(IMAGES / "plots.png", np.concatenate(whole))


def draw_mixing() -> None:
    """Chains of one model early in its training, and late."""
    states, _ = tf_wcd.datasets.load("BS16")
    rbm = tf_wcd.RBMLayer(20, negative_phase="pcd", centered=True, seed=0)
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.5))
    rows = []
    for updates in (400, 30_000):
        rbm.fit(states, batch_size=len(states), steps_per_epoch=updates - int(rbm.optimizer.iterations), verbose=0)
        result = tf_wcd.evaluation.mixing(rbm, states, gibbs_steps=1000, seed=0)
        print(updates, result.reason)
        verdict = f"R-hat {result.r_hat:.3g}, autocorrelation time {result.autocorrelation_time:.3g} steps"
        rows.append(plots.pixels(plots.compare_starts(result, f"After {updates} updates: {verdict}")))
    image.imsave(IMAGES / "mixing.png", np.concatenate(rows))


def draw_gradients() -> None:
    """The errors of three phases' steps while a model of Bars and Stripes learns by one of them."""
    states, _ = tf_wcd.datasets.load("BS09")
    spins = 2 * states - 1
    rbm = tf_wcd.RBMLayer(
        27,
        visible_type="spin",
        hidden_type="spin",
        negative_phase="bcd",
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.1, seed=0),
        seed=0,
    )
    rbm.compile(keras.optimizers.SGD(0.01, momentum=0.9))
    errors = tf_wcd.callbacks.GradientError(spins, ["cd", "wcd", "bcd"], repetitions=1000)
    rbm.fit(spins, batch_size=14, steps_per_epoch=100, epochs=12, callbacks=[errors], verbose=0)
    title = "gradient_errors: Bars and Stripes 3 x 3, 27 hidden spins, trained by BCD_1, epochs of 100 updates"
    plots.gradient_errors(errors.history, title).savefig(IMAGES / "gradient_errors.png")


def draw_tensorboard() -> None:
    """TensorBoard in a browser, after a short training on MNIST."""
    (x, _), (test, _) = tf_wcd.datasets.load("mnist", binarize="stochastic", seed=0)
    updates, epochs = len(x) // 100, 10
    with tempfile.TemporaryDirectory() as folder:
        rbm = tf_wcd.RBMLayer(200, negative_phase="pcd", centered=True, seed=0)
        rbm.start_at_means(x)
        rate = keras.optimizers.schedules.PolynomialDecay(0.05, epochs * updates, 0.0)
        rbm.compile(keras.optimizers.SGD(rate, momentum=0.5))
        board = tf_wcd.callbacks.RBMTensorBoard(f"{folder}/logs/mnist", x, test, gibbs_steps=500, filters=64)
        rbm.fit(x, batch_size=100, epochs=epochs, callbacks=[board], verbose=2)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "tensorboard.main", f"--logdir={folder}/logs", f"--port={port}"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}/"
            wait_for(address)
            with browsing(f"{folder}/browser") as page:
                page.call(
                    "Emulation.setDeviceMetricsOverride", width=1400, height=1500, deviceScaleFactor=1, mobile=False
                )
                page.open(f"{address}?darkMode=false&smoothing=0&forceSVG=true&tagFilter={TAGS}#timeseries")
                page.wait_for(
                    "document.querySelectorAll('card-view image-card img, card-view scalar-card').length >= 5"
                )
                page.evaluate(CLOSE_SETTINGS)
                time.sleep(10)  # the pictures come, and the curves are drawn
                page.screenshot(IMAGES / "tensorboard.png")
        finally:
            server.terminate()
            server.wait()


def wait_for(address: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    {"plots": draw_plots, "mixing": draw_mixing, "gradients": draw_gradients, "tensorboard": draw_tensorboard}[
        sys.argv[1]
    ]()
