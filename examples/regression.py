"""Regression: the angle of a bar, from noisy pictures; few of them have their angle, many have none.

Takes half a minute. To see how it runs: ``python examples/regression.py --epochs=2``.
"""

import argparse

import keras
import numpy as np

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=60, help="epochs of pre-training; fine-tuning has as many")
parser.add_argument("--labels", type=int, default=100, help="pictures with a known angle")
parser.add_argument("--seed", type=int, default=0, help="seed of the pictures and of training")
arguments = parser.parse_args()

# Bars through the middle of 12 x 12 pixels, at angles from 0 to 90 degrees; a tenth of the pixels is wrong.
rng = np.random.default_rng(arguments.seed)
angles = rng.uniform(0, np.pi / 2, 5000)
across, down = np.meshgrid(np.arange(12) - 5.5, np.arange(12) - 5.5)
distance = np.sin(angles)[:, None, None] * across - np.cos(angles)[:, None, None] * down
x = (np.abs(distance) < 1.5) != (rng.random(distance.shape) < 0.1)
x = x.reshape(len(x), -1).astype("float32")
y = (angles - angles.mean()) / angles.std()
known, test = slice(0, arguments.labels), slice(4000, 5000)


def stack():
    """Two layers of features."""
    return tf_wcd.DBN(
        [tf_wcd.RBMLayer(units, negative_phase="cd", centered=True, seed=arguments.seed) for units in (100, 50)]
    )


keras.utils.set_random_seed(arguments.seed)
dbn, plain = stack(), stack()
for rbm in dbn.rbms:
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.5))
dbn.pretrain(x[:4000], epochs=arguments.epochs, batch_size=100, verbose=0)
plain.build((None, 144))
for rbm in plain.rbms:
    rbm.kernel.assign(keras.initializers.GlorotUniform(arguments.seed)(rbm.kernel.shape))

for name, network in (("from random weights", plain), ("pre-trained", dbn)):
    model = network.regressor()
    model.compile(keras.optimizers.Adam(0.003), "mse")
    model.fit(x[known], y[known], batch_size=25, epochs=arguments.epochs, verbose=0)
    error = np.sqrt(np.mean((model.predict(x[test], verbose=0)[:, 0] - y[test]) ** 2)) * np.degrees(angles.std())
    print(f"{name}: error {error:.1f} degrees with {arguments.labels} known angles")
