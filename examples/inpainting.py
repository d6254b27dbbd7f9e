"""Filling in what is missing: known pixels are held with `clamp`, the others are drawn given them.

Takes a few minutes. To see how it runs: ``python examples/inpainting.py --images=1000 --epochs=1``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--images", type=int, default=60000, help="number of training images")
parser.add_argument("--epochs", type=int, default=20, help="passes over the training images")
parser.add_argument("--out", default="inpainting.png", help="picture of the completed digits")
arguments = parser.parse_args()

(x, _), (x_test, _) = tf_wcd.datasets.load("mnist", binarize="threshold")
x = x[: arguments.images]

rbm = tf_wcd.RBMLayer(500, negative_phase="pcd", centered=True, seed=0)
rbm.start_at_means(x)
updates = arguments.epochs * -(-len(x) // 100)
rate = keras.optimizers.schedules.PolynomialDecay(0.05, updates, 0.0)
rbm.compile(keras.optimizers.SGD(rate, momentum=0.5))
rbm.fit(x, batch_size=100, epochs=arguments.epochs, verbose=2)

# The upper half of each digit is known. The lower half starts from noise.
digits = x_test[:10]
known = np.zeros(784)
known[: 784 // 2] = 1
noise = np.random.default_rng(0).integers(0, 2, digits.shape)
start = np.where(known, digits, noise)
rows = [digits, np.where(known, digits, 0.5)]
for seed in range(4):
    rows.append(rbm.sample(10, gibbs_steps=1000, initial=start, clamp=known, seed=seed))
plots.image_sheet(np.concatenate(rows), (28, 28), columns=10, title="digit, what is known, four answers").savefig(
    arguments.out
)
print(f"Picture: {arguments.out}")
