"""Transfer: features learned without labels on one set of pictures, fine-tuned on another that has few labels.

Takes half a minute. To see how it runs: ``python examples/transfer.py --epochs=2``.
"""

import argparse

import keras
import numpy as np

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=40, help="epochs of pre-training; fine-tuning has as many")
parser.add_argument("--labels", type=int, default=60, help="labelled examples of the second set")
parser.add_argument("--seed", type=int, default=0, help="seed of the pictures and of training")
arguments = parser.parse_args()
rng = np.random.default_rng(arguments.seed)


def pictures(angles):
    """Bars through the middle of 12 x 12 pixels, at each of the angles of a row; a tenth of the pixels is wrong."""
    across, down = np.meshgrid(np.arange(12) - 5.5, np.arange(12) - 5.5)
    sine, cosine = np.sin(angles)[..., None, None], np.cos(angles)[..., None, None]
    bars = (np.abs(sine * across - cosine * down) < 1.5).any(axis=1)
    return (bars != (rng.random(bars.shape) < 0.1)).reshape(len(bars), -1).astype("float32")


# The first set has two bars in each picture, and no labels. The second one has one bar, of six directions.
first = pictures(rng.uniform(0, np.pi, (4000, 2)))
y = rng.integers(0, 6, 1000 + arguments.labels)
x = pictures((y[:, None] + rng.random((len(y), 1))) * np.pi / 6)
train, test = slice(0, arguments.labels), slice(arguments.labels, None)

keras.utils.set_random_seed(arguments.seed)
dbn = tf_wcd.DBN([tf_wcd.RBMLayer(100, negative_phase="cd", centered=True, seed=arguments.seed)])
dbn.rbms[0].compile(keras.optimizers.SGD(0.05, momentum=0.5))
dbn.pretrain(first, epochs=arguments.epochs, batch_size=100, verbose=0)
plain = tf_wcd.DBN([tf_wcd.RBMLayer(100, kernel_initializer=keras.initializers.GlorotUniform(arguments.seed))])
plain.build((None, 144))

for name, network in (("from random weights", plain), ("pre-trained on two bars", dbn)):
    classifier = network.classifier(6)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    classifier.fit(x[train], y[train], batch_size=20, epochs=arguments.epochs, verbose=0)
    accuracy = classifier.evaluate(x[test], y[test], verbose=0)[1]
    print(f"{name}: test error {1 - accuracy:.1%} with {arguments.labels} labels")
