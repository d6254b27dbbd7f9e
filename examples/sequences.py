"""Sequences: one frame says where a ball is, and only two say where it goes.

A ball runs through a row of cells. It turns at the walls, and elsewhere with a chance of 5 %. RBMs of a frame without a
past, given one frame and given two go on from the same start. To see how it runs: add ``--updates=100``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots, sequences, units

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=3000, help="updates of each model")
parser.add_argument("--out", default="sequences.png", help="picture: time runs to the right")
arguments = parser.parse_args()
CELLS, STEPS, rng = 16, 60, np.random.default_rng(0)


def balls(count):
    """Frames with a 1 where the ball is, [count, STEPS, CELLS]."""
    place, way, frames = rng.integers(0, CELLS, count), rng.choice([-1, 1], count), []
    for _ in range(STEPS):
        way = np.where(rng.random(count) < 0.05, -way, way)
        way = np.where((place + way < 0) | (place + way >= CELLS), -way, way)
        place = place + way
        frames.append(np.eye(CELLS)[place])
    return np.stack(frames, axis=1)


def report(name, frames, log_prob):
    moves, inside = np.diff(frames.argmax(axis=2)), frames[:, 1:-1, 1:-1].any(axis=2)  # not at a wall
    one, turns = (abs(moves) == 1).mean(), (moves[:, 1:] == -moves[:, :-1])[inside].mean()
    print(f"{name}: {one:.1%} of the steps to the next cell, {turns:.1%} turns, log P of a frame {log_prob:.3f}")
    return name, frames[0].T


train, test = balls(200), balls(100)
chance = np.where((test[:, 2:] * test[:, :-2]).any(axis=2), 0.05, 0.95)  # of a ball that turned, or did not
truth = np.where(test[:, 1:-1, 1:-1].any(axis=2), np.log(chance), 0.0).mean()
sheet = [report("the balls", test, truth)]
for order, past in enumerate((None, CELLS, 2 * CELLS)):
    rbm = tf_wcd.RBMLayer(20, units.Potts(CELLS), negative_phase="cd", conditions=past, centered=True, seed=0)
    rbm.compile(keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(0.02, arguments.updates, 0.0)))
    data, unseen = (sequences.history(each, order) if order else np.concatenate(each) for each in (train, test))
    rbm.fit(data, batch_size=100, steps_per_epoch=arguments.updates, verbose=0)
    if order:
        frames = sequences.generate(rbm, test[:, :2], STEPS, seed=0)
    else:
        frames = rbm.sample(len(test) * STEPS, gibbs_steps=100, seed=0).numpy().reshape(test.shape)
    sheet.append(report(f"{order} frames before", frames, tf_wcd.evaluation.log_prob(rbm, unseen).mean()))
figure, axes = plots.new_figure(7, 5, rows=4)
for (name, ball), own in zip(sheet, axes, strict=True):
    own.imshow(ball, cmap="binary", aspect="auto")
    own.set_title(name)
figure.savefig(arguments.out)
print(f"Picture: {arguments.out}")
