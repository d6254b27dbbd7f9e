"""An RBM that classifies: labels joined to the pixels, trained on the joint distribution, or mostly on the labels.

Takes a few minutes. To see how it runs: ``python examples/classification_rbm.py --images=1000 --epochs=1 --units=50``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--images", type=int, default=60000, help="number of training images, and at most of test images")
parser.add_argument("--units", type=int, default=500, help="number of hidden units")
parser.add_argument("--epochs", type=int, default=20, help="passes over the training images")
parser.add_argument("--out", default="classes.png", help="picture of digits drawn from the generative model")
arguments = parser.parse_args()

(x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
x, y, x_test, y_test = (part[: arguments.images] for part in (x, y, x_test, y_test))

models = {}
for objective, rate in (("generative", 0.1), ("hybrid", 1.0)):
    rbm = tf_wcd.RBMLayer(arguments.units, negative_phase="pcd", centered=True, classes=10, objective=objective, seed=0)
    updates = arguments.epochs * -(-len(x) // 100)
    schedule = keras.optimizers.schedules.PolynomialDecay(rate, updates, 0.0)
    rbm.compile(keras.optimizers.SGD(schedule, momentum=0.5))
    rbm.start_at_means(rbm.with_labels(x, y))
    rbm.fit(x, y, batch_size=100, epochs=arguments.epochs, verbose=2)
    # P(label | x) is exact: a softmax over the free energies of the image with each label.
    error = np.mean(np.argmax(rbm.label_log_prob(x_test), axis=1) != y_test)
    print(f"{objective}: test error {error:.2%}")
    models[objective] = rbm

# The same model draws digits of the class that it is asked for.
labels = np.repeat(np.arange(10), 10)
digits = models["generative"].sample(100, gibbs_steps=1000, labels=labels, seed=0)
plots.image_sheet(digits, (28, 28), row_names=[str(label) for label in range(10)]).savefig(arguments.out)
print(f"Digits drawn from the model: {arguments.out}")
