"""The lower half of a digit given the upper one: a conditional RBM, beside one without hidden units.

The upper half moves the biases of the lower one, directly and by way of the hidden units. Without these the pixels of
the lower half are independent of each other, given the upper half: a logistic regression for each. Takes a minute. To
see how it runs: ``python examples/conditional_rbm.py --images=1000 --epochs=1 --digits=3``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--images", type=int, default=60000, help="number of training images")
parser.add_argument("--epochs", type=int, default=10, help="passes over the training images")
parser.add_argument("--digits", type=int, default=30, help="number of test images to take the likelihood of")
parser.add_argument("--out", default="conditional_rbm.png", help="picture of the completed digits")
arguments = parser.parse_args()


def halves(x):
    """Upper and lower half of digits of 14 x 14 pixels, 0 or 1."""
    small = x.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) > 0.3
    return small[:, :7].reshape(-1, 98).astype("float32"), small[:, 7:].reshape(-1, 98).astype("float32")


(x, _), (x_test, _) = tf_wcd.datasets.load("mnist", binarize="threshold")
upper, lower = halves(x[: arguments.images])
upper_test, lower_test = halves(x_test[: arguments.digits])

for name, units in (("logistic regressions", 1), ("conditional RBM", 200)):
    rbm = tf_wcd.RBMLayer(units, negative_phase="cd", gibbs_steps=5, conditions=98, centered=True, seed=0)
    rbm.start_at_means(lower)
    rbm.kernel.trainable = units > 1
    if units == 1:
        rbm.kernel.assign(0.0 * rbm.kernel)
    updates = arguments.epochs * -(-len(upper) // 100)
    rbm.compile(keras.optimizers.SGD(keras.optimizers.schedules.PolynomialDecay(0.1, updates, 0.0), momentum=0.5))
    rbm.fit([lower, upper], batch_size=100, epochs=arguments.epochs, verbose=0)
    # log P(lower half | upper half): the RBM under each upper half has a normaliser of its own.
    found = []
    for half, condition in zip(lower_test, upper_test, strict=True):
        given = rbm.given(condition)
        log_z = tf_wcd.evaluation.annealed_log_partition(given, temperatures=1000, reverse=False, seed=0).estimate
        found.append(-float(given.free_energy(half[None])[0]) - log_z)
    print(f"{name}: log P(lower half | upper half) {np.mean(found):.1f} nats")

digits = np.concatenate([upper_test, lower_test], axis=1)[:10]
rows, names = [digits, np.where(np.arange(196) < 98, digits, 0.5)], ["digit", "given", *["answer"] * 4]
for seed in range(4):
    answer = rbm.sample(len(digits), gibbs_steps=500, condition=digits[:, :98], seed=seed)
    rows.append(np.concatenate([digits[:, :98], answer], axis=1))
plots.image_sheet(np.concatenate(rows), (14, 14), len(digits), row_names=names).savefig(arguments.out)
print(f"Picture: {arguments.out}")
