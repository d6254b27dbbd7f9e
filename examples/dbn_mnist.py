"""A Deep Belief Network on MNIST: pre-train layer by layer, fine-tune a classifier, and draw digits of each class.

Takes a few minutes on two cores. To see how it runs: ``python examples/dbn_mnist.py --images=1000 --epochs=1``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--images", type=int, default=60000, help="number of training images, and at most of test images")
parser.add_argument("--epochs", type=int, default=5, help="epochs for each layer, and for fine-tuning")
parser.add_argument("--out", default="digits.png", help="picture of digits drawn from the model")
arguments = parser.parse_args()

(x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
x, y = x[: arguments.images], y[: arguments.images].astype(int)
x_test, y_test = x_test[: arguments.images], y_test[: arguments.images].astype(int)

# Two layers of features; the RBM on top sees the second one and the ten labels.
# Plain weights would fall onto one or two of 100 points.
phase = tf_wcd.negative_phases.WCD(minimum_ess=0.5)
labelled = tf_wcd.units.Labelled("bernoulli", classes=10)
dbn = tf_wcd.DBN(
    [
        tf_wcd.RBMLayer(500, negative_phase=phase, centered=True, seed=0),
        tf_wcd.RBMLayer(500, negative_phase=phase, centered=True, seed=1),
        tf_wcd.RBMLayer(1000, visible_type=labelled, negative_phase="pcd", centered=True, seed=2),
    ]
)
for rbm, rate in zip(dbn.rbms, (0.01, 0.01, 0.05), strict=True):
    rbm.compile(keras.optimizers.SGD(rate, momentum=0.5))
dbn.pretrain(x, y, epochs=arguments.epochs, batch_size=100)
dbn.summary()

# The generative model classifies by comparing free energies, and draws digits of the class it is asked for.
error = np.mean(np.argmax(dbn.label_log_prob(x_test), axis=1) != y_test)
print(f"Test error by free energy: {error:.2%}")
digits = dbn.sample(100, gibbs_steps=1000, labels=np.repeat(np.arange(10), 10), probabilities=True, seed=0)
rows = [str(label) for label in range(10)]
plots.image_sheet(digits, (28, 28), row_names=rows).savefig(arguments.out)
print(f"Digits drawn from the model: {arguments.out}")

# Back-propagation from the pre-trained weights.
classifier = dbn.classifier(10, dropout=0.2)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
classifier.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
classifier.fit(x, y, batch_size=100, epochs=arguments.epochs)
accuracy = classifier.evaluate(x_test, y_test, batch_size=1000, verbose=0)[1]
print(f"Test error after fine-tuning: {1 - accuracy:.2%}")
