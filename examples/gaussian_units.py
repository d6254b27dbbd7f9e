"""Real-valued data: Gaussian visible units, with variances that are learned.

Takes half a minute. To see how it runs: ``python examples/gaussian_units.py --epochs=5``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=400, help="passes over the data")
parser.add_argument("--out", default="gaussian_units.png", help="picture of data and samples")
arguments = parser.parse_args()

# Points about the four corners of a square: standardise your own data like this, to mean 0 and variance 1.
rng = np.random.default_rng(0)
corners = rng.choice([-1.0, 1.0], (5000, 2))
data = corners + rng.normal(scale=0.25, size=corners.shape)
data = ((data - data.mean(axis=0)) / data.std(axis=0)).astype("float32")

# Weights near zero would be stuck here: the data have the mean and the covariance of a plain Gaussian already.
rbm = tf_wcd.RBMLayer(
    8,
    visible_type=tf_wcd.units.Gaussian(learn_variance=True),
    negative_phase="cd",
    gibbs_steps=5,
    kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=0),
    seed=0,
)
rbm.compile(keras.optimizers.Adam(0.003))
rbm.fit(data, batch_size=100, epochs=arguments.epochs, verbose=0)

samples = rbm.sample(2000, gibbs_steps=2000, seed=1).numpy()
print(f"Exact mean log-density of the data: {tf_wcd.evaluation.log_prob(rbm, data).mean():.3f} nats")
figure, panels = plots.new_figure(8, 4.4, columns=2)
for panel, points, title in zip(panels, (data[:2000], samples), ("data", "samples of the model"), strict=True):
    panel.plot(points[:, 0], points[:, 1], ".", markersize=2, color=plots.COLORS[0])
    panel.set(title=title, xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal")
figure.savefig(arguments.out)
print(f"Picture: {arguments.out}")
