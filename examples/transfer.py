"""Transfer: features learned without labels on one set of digits help where another set has few labels.

Takes half a minute, and uses the 1797 digits of 8 x 8 pixels that come with scikit-learn (``pip install scikit-learn``).
To see how it runs: ``python examples/transfer.py --epochs=2``.
"""

import argparse

import keras
import numpy as np
from sklearn.datasets import load_digits

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=100, help="epochs of pre-training; fine-tuning has as many")
parser.add_argument("--labels", type=int, default=50, help="labelled examples of the second set")
parser.add_argument("--seed", type=int, default=0, help="seed of the choice of examples and of training")
arguments = parser.parse_args()

x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
order = np.random.default_rng(arguments.seed).permutation(len(x))
# The first set has the digits 0 to 4, without labels. The second one has 5 to 9, and few labels.
first = order[y[order] < 5]
second = order[y[order] >= 5]
train, test = second[: arguments.labels], second[400:]

keras.utils.set_random_seed(arguments.seed)
dbn = tf_wcd.DBN([tf_wcd.RBMLayer(100, negative_phase="cd", centered=True, seed=arguments.seed)])
dbn.rbms[0].compile(keras.optimizers.SGD(0.05, momentum=0.5))
plain = tf_wcd.DBN([tf_wcd.RBMLayer(100, seed=arguments.seed, kernel_initializer="glorot_uniform")])
plain.build((None, 64))
dbn.pretrain(x[first], epochs=arguments.epochs, batch_size=50, verbose=0)

for name, network in (("from random weights", plain), ("pre-trained on other digits", dbn)):
    classifier = network.classifier(5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    classifier.fit(x[train], y[train] - 5, batch_size=25, epochs=arguments.epochs, verbose=0)
    accuracy = classifier.evaluate(x[test], y[test] - 5, verbose=0)[1]
    print(f"{name}: test error {1 - accuracy:.1%} with {len(train)} labels")
