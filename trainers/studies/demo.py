"""The demonstration: three rules for the weights on a problem small enough to know the truth."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATES_PER_EPOCH = 2000
PHASES = ("cd", "wcd", "bcd")
NAMES = {"CD_1": "contrastive divergence (CD)", "WCD_1": "weighted (WCD)", "BCD_1": "balanced (BCD)"}
# One setting for all, that which suits CD best: of five rates and two initial standard deviations tried on BS16 with
# other seeds (32 and 80 hidden units), these had the lowest KL at the end.
HIDDEN = 80
LEARNING_RATE = 0.001  # the first one; it falls linearly to zero
INITIAL_STDDEV = 0.01


def train(
    problem: str, negative_phase: str, epochs: int, seed: int, verbose: int
) -> tuple[tf_wcd.RBMLayer, list[tuple[int, float, float]]]:
    """Trains one model on the whole problem at each update; returns it with its (epoch, KL, mass) along the way."""
    states, probabilities = tf_wcd.datasets.load(problem)
    spins = 2 * states - 1
    rbm = tf_wcd.RBMLayer(
        HIDDEN,
        visible_type="spin",
        hidden_type="spin",
        negative_phase=negative_phase,
        kernel_initializer=keras.initializers.RandomNormal(stddev=INITIAL_STDDEV, seed=seed),
        seed=seed,
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(LEARNING_RATE, epochs * UPDATES_PER_EPOCH, 0.0)
    rbm.compile(keras.optimizers.SGD(schedule, momentum=0.9), steps_per_execution=UPDATES_PER_EPOCH // 4)
    kl = tf_wcd.callbacks.ExactKL(spins, probabilities)
    rbm.fit(
        spins,
        sample_weight=probabilities,
        batch_size=len(spins),
        steps_per_epoch=UPDATES_PER_EPOCH,
        epochs=epochs,
        callbacks=[kl],
        verbose=verbose,
    )
    return rbm, kl.history


def serve_and_sample(rbm: tf_wcd.RBMLayer, folder: Path, count: int = 64) -> Path | None:
    """Publishes a model, serves it on a free port, asks for samples over gRPC, and draws them."""
    try:
        from serving import SamplerClient, publish
        from serving.commands import write_sheet
        from serving.options import Options
        from serving.server import Server
    except ImportError as error:
        print(f"The service needs the extra 'serving' ({error}): pip install 'tf-wcd[serving]'")
        return None
    version = publish(rbm, folder / "models" / PHASES[-1], keep=3)
    server = Server(Options(port=-1, model_name=PHASES[-1], model_base_path=str(version.parent)))
    try:
        server.start()
        with SamplerClient(f"127.0.0.1:{server.port}", PHASES[-1]) as client:
            samples = client.sample(count, seed=0)
    finally:
        server.stop()
    picture = folder / "samples.png"
    write_sheet(samples, picture)
    print(f"Published as {version}, served on port {server.port}: {count} samples over gRPC, drawn in {picture}")
    return picture


def draw(states: np.ndarray, probabilities: np.ndarray, curves: dict[str, Any], models: dict[str, Any]) -> Figure:
    """What there is to learn, how far from it each method stays, and the probabilities that they end with."""
    figure, (left, middle, right) = plots.new_figure(14, 4.4, columns=3)
    side = math.isqrt(states.shape[1])
    columns = -(-len(states) // 5)
    tiles = np.full([5 * columns, side + 1, side + 1], 0.6)
    tiles[: len(states), :side, :side] = 1 - states.reshape(-1, side, side)
    sheet = tiles.reshape(5, columns, side + 1, side + 1).swapaxes(1, 2).reshape(5 * (side + 1), -1)
    left.imshow(np.pad(sheet, ((1, 0), (1, 0)), constant_values=0.6), cmap="gray", vmin=0, vmax=1)
    left.set(xticks=[], yticks=[], title=f"To be learned: these {len(states)} pictures, all equally likely")
    plots.plot_kl(middle, {NAMES[name]: curve for name, curve in curves.items()})
    middle.set(title="How far the model is from the truth", ylabel="exact divergence, nats (0: no difference)")
    plots.plot_probabilities(right, probabilities, {NAMES[name]: values for name, values in models.items()})
    right.set(title="How likely each picture is in the end", xlabel="picture")
    right.get_lines()[0].set_label("the truth")
    plots.legend_below(figure)
    return figure


def run(
    folder: str | Path = "demo", epochs: int = 50, problem: str = "BS16", seed: int = 0, verbose: int = 1
) -> dict[str, float]:
    """Trains CD_1, WCD_1 and BCD_1 alike, prints their exact KL, draws it, and samples the last through a server.

    Args:
        folder: where the picture and the trained models go.
        epochs: Keras epochs, of 2000 updates each.
        problem: one of the small problems.
        seed: seed of all runs.
        verbose: Keras' verbosity.

    Returns:
        The exact KL of each method at the end.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    states, probabilities = tf_wcd.datasets.load(problem)
    print(f"{problem}: {len(states)} states of {states.shape[1]} units, whose probabilities are known exactly.")
    curves, models, results = {}, {}, {}
    for phase in PHASES:
        name = f"{phase.upper()}_1"
        print(f"\n{name}: {epochs} epochs of {UPDATES_PER_EPOCH} updates, {HIDDEN} hidden units")
        start = time.perf_counter()
        rbm, history = train(problem, phase, epochs, seed, verbose)
        seconds = time.perf_counter() - start
        curves[name] = [(epoch + 1) * UPDATES_PER_EPOCH for epoch, _, _ in history], [kl for _, kl, _ in history]
        models[name] = np.exp(tf_wcd.evaluation.log_prob(rbm, 2 * states - 1))
        results[name] = history[-1][1]
        print(
            f"{name}: KL {history[-1][1]:.4f} nats, {history[-1][2]:.1%} of the probability on the training set, "
            f"{seconds:.0f} s"
        )
        rbm.save(folder / f"{phase}.keras")
    picture = folder / f"{problem}.png"
    draw(states, probabilities, curves, models).savefig(picture)
    figures = ", ".join(f"{name} {kl:.4f}" for name, kl in results.items())
    print(f"\nExact KL from the truth: {figures} nats.")
    print(f"Picture: {picture}")
    serve_and_sample(rbm, folder)  # the last one
    files = ", ".join(str(folder / f"{phase}.keras") for phase in PHASES)
    print(f"Models: {files} (load them with keras.models.load_model)")
    return results
