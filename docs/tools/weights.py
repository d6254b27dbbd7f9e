"""The pictures of docs/weights.md: ``python -m docs.tools.weights`` draws them in a few seconds.

A model of four spins is small enough to list its 16 states. The points are drawn, and weighted, as in training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd import plots
from tf_wcd.enumeration import all_states
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import Batch
from tf_wcd.negative_phases.composition import weighted_points

IMAGES = Path(__file__).parents[1] / "images"
POINTS = 4000  # examples, reconstructions, chains
BLUE, ORANGE = plots.COLORS[:2]


def small_model(update: float = 0.0) -> Machine:
    """Four visible and three hidden spins with random weights, before or after an update of random direction."""
    rng = np.random.default_rng(5)
    spin = tf_wcd.units.get("spin")
    shapes = {"kernel": (4, 3), "visible_bias": (4,), "hidden_bias": (3,)}
    now = {name: rng.normal(size=shape) * (0.55 if name == "kernel" else 0.3) for name, shape in shapes.items()}
    moved = {name: now[name] + update * rng.normal(size=shape) for name, shape in shapes.items()}
    return Machine(spin, spin, **{name: tf.constant(value, tf.float32) for name, value in moved.items()})


def probabilities(machine: Machine) -> np.ndarray:
    """P of the 16 states."""
    return tf.nn.softmax(-machine.free_energy(all_states(machine.visible, 4))).numpy()


def shares(visible: tf.Tensor, weights: np.ndarray) -> np.ndarray:
    """The share of the weights that each of the 16 states has."""
    index = ((visible.numpy() > 0) @ [8, 4, 2, 1]).astype(int)
    return np.bincount(index, weights, minlength=16)


def draw(name: str, model: np.ndarray, drawn: np.ndarray, weighted: np.ndarray, labels: tuple[str, str, str]) -> None:
    """Bars for the model, a line for where the points are, dots for what their weights make of them."""
    figure, (axes,) = plots.new_figure(7.2, 2.9)
    order = np.argsort(-model)
    place = np.arange(16)
    axes.bar(place, model[order], color="#d9d9d9", label=labels[0])
    axes.step(place, drawn[order], where="mid", color=BLUE, linewidth=1.6, label=labels[1])
    axes.plot(place, weighted[order], "o", color=ORANGE, markersize=6, label=labels[2])
    axes.set(xlabel="the 16 states, most probable first", ylabel="probability", xticks=[])
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / f"{name}.png")


def reconstructions(machine: Machine, phase: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the reconstructions of a few examples are, and what a phase's weights make of them."""
    examples = tf.constant([[-1.0, 1, 1, 1], [1, 1, -1, 1], [1, -1, 1, -1], [1, 1, -1, -1]])
    data = tf.repeat(examples, POINTS // len(examples), axis=0)
    batch = Batch(machine, data, tf.fill([POINTS], -np.float32(np.log(POINTS))))
    points, log_weights, _ = weighted_points(
        tf_wcd.negative_phases.get(phase), machine, batch, {}, tf.constant([1, 2], tf.uint32)
    )
    return shares(points.visible, np.full(POINTS, 1 / POINTS)), shares(points.visible, np.exp(log_weights))


def chains(before: Machine, after: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Chains that follow one model, and what Jarzynski's weights for the next one make of them."""
    states = all_states(before.visible, 4)
    chosen = np.random.default_rng(0).choice(16, size=POINTS, p=probabilities(before) / probabilities(before).sum())
    visible = tf.gather(states, chosen)
    weights = tf.nn.softmax(before.free_energy(visible) - after.free_energy(visible)).numpy()
    return shares(visible, np.full(POINTS, 1 / POINTS)), shares(visible, weights)


def main() -> None:
    """Draws the three pictures."""
    machine = small_model()
    model = probabilities(machine)
    for phase, weights in (("wcd", "weighted by P"), ("bcd", "weighted by P / q")):
        drawn, weighted = reconstructions(machine, phase)
        draw(f"weights_{phase}", model, drawn, weighted, ("the model, P", "reconstructions, q", f"these, {weights}"))

    after = small_model(update=0.3)
    followed, weighted = chains(machine, after)
    labels = ("the model after the update", "chains, at the model before", "these, weighted by after / before")
    draw("weights_jpcd", probabilities(after), followed, weighted, labels)


if __name__ == "__main__":
    main()
