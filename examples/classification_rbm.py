"""An RBM that classifies: labels joined to the pixels, trained on the joint distribution, or mostly on the labels.

Takes about ten minutes. To see how it runs:
``python examples/classification_rbm.py --images=1000 --epochs=1 --units=50``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--images", type=int, default=60000, help="number of training images, and at most of test images")
parser.add_argument("--units", type=int, default=500, help="number of hidden units")
parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
parser.add_argument("--out", default="classes.png", help="picture of digits drawn from the generative model")
arguments = parser.parse_args()

(x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist", None)
x, y, x_test, y_test = (part[: arguments.images] for part in (x, y, x_test, y_test))
x, x_test = (part.astype("float32") / 255 for part in (x, x_test))
rng = np.random.default_rng(0)


def model(objective, rate):
    """An RBM whose learning rate falls to zero over all updates."""
    rbm = tf_wcd.RBMLayer(arguments.units, negative_phase="pcd", centered=True, classes=10, objective=objective, seed=0)
    updates = arguments.epochs * -(-len(x) // 100)
    rbm.compile(keras.optimizers.SGD(keras.optimizers.schedules.PolynomialDecay(rate, updates, 0.0), momentum=0.5))
    rbm.start_at_means(rbm.with_labels(x, y))
    return rbm


# The joint distribution of images and labels, from images whose pixels are drawn anew at each epoch.
generative = model("generative", 0.1)
for epoch in range(arguments.epochs):
    drawn = (rng.random(x.shape, "float32") < x).astype("float32")
    generative.fit(drawn, y, batch_size=100, initial_epoch=epoch, epochs=epoch + 1, verbose=2)

# Mostly the labels given the images, whose grey levels are enough for that.
hybrid = model("hybrid", 1.0)
hybrid.fit(x, y, batch_size=100, epochs=arguments.epochs, verbose=2)

for name, rbm in (("generative", generative), ("hybrid", hybrid)):
    # P(label | x) is exact: a softmax over the free energies of the image with each label.
    error = np.mean(np.argmax(rbm.label_log_prob(x_test), axis=1) != y_test)
    print(f"{name}: test error {error:.2%}")

# The generative model draws digits of the class that it is asked for.
labels = np.repeat(np.arange(10), 10)
digits = generative.sample(100, gibbs_steps=1000, labels=labels, seed=0)
plots.image_sheet(digits, (28, 28), row_names=[str(label) for label in range(10)]).savefig(arguments.out)
print(f"Digits drawn from the model: {arguments.out}")
