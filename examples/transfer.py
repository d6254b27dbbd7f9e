"""Transfer: features learned on one set of pictures, without labels, fine-tuned on another that has few labels.

Takes half a minute. To see how it runs: ``python examples/transfer.py --epochs=2``.
"""

import argparse

import keras
import numpy as np

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=60, help="epochs of pre-training; fine-tuning has as many")
parser.add_argument("--labels", type=int, default=100, help="labelled pictures of the second set")
parser.add_argument("--seed", type=int, default=0, help="seed of the pictures and of training")
arguments = parser.parse_args()
rng = np.random.default_rng(arguments.seed)


def pictures(angles, away):
    """Bars in 12 x 12 pixels, at these angles and so far away from the middle; a tenth of the pixels is wrong."""
    across, down = np.meshgrid(np.arange(12) - 5.5, np.arange(12) - 5.5)
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    bars = np.abs(sine * across - cosine * down - away[:, None, None]) < 1.5
    return (bars != (rng.random(bars.shape) < 0.1)).reshape(len(bars), -1).astype("float32")


# The first set has bars anywhere, without labels. In the second one they go through the middle; few angles are known.
first = pictures(rng.uniform(0, np.pi / 2, 4000), rng.uniform(-3, 3, 4000))
angles = rng.uniform(0, np.pi / 2, 1000 + arguments.labels)
x, y = pictures(angles, np.zeros(len(angles))), (angles - angles.mean()) / angles.std()
train, test = slice(0, arguments.labels), slice(arguments.labels, None)

keras.utils.set_random_seed(arguments.seed)
sizes = (100, 50)
dbn = tf_wcd.DBN([tf_wcd.RBMLayer(n, negative_phase="cd", centered=True, seed=arguments.seed) for n in sizes])
for rbm in dbn.rbms:
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.5))
dbn.pretrain(first, epochs=arguments.epochs, batch_size=100, verbose=0)
glorot = keras.initializers.GlorotUniform(arguments.seed)
plain = tf_wcd.DBN([tf_wcd.RBMLayer(n, kernel_initializer=glorot) for n in sizes])
plain.build((None, 144))

for name, network in (("from random weights", plain), ("pre-trained on bars anywhere", dbn)):
    model = network.regressor()
    model.compile(keras.optimizers.Adam(0.003), "mse")
    model.fit(x[train], y[train], batch_size=25, epochs=arguments.epochs, verbose=0)
    error = np.sqrt(np.mean((model.predict(x[test], verbose=0)[:, 0] - y[test]) ** 2)) * np.degrees(angles.std())
    print(f"{name}: error {error:.1f} degrees with {arguments.labels} known angles")
