"""Training on states with known probabilities: they are `sample_weight`.

Takes half a minute. To see how it runs: ``python examples/target_probabilities.py --epochs=2``.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=30, help="epochs of 2000 updates")
parser.add_argument("--out", default="multiples_of_three.png", help="picture of the probabilities")
arguments = parser.parse_args()

# All integers of 12 bits: multiples of 3 are likelier than those that leave 1, and these than those that leave 2.
states, probabilities = tf_wcd.datasets.load("Mult3G")
spins = 2 * states - 1

rbm = tf_wcd.RBMLayer(
    60,
    visible_type="spin",
    hidden_type="spin",
    negative_phase="wcd",
    kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=0),
    seed=0,
)
rate = keras.optimizers.schedules.PolynomialDecay(0.01, 2000 * arguments.epochs, 0.0)
rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
kl = tf_wcd.callbacks.ExactKL(spins, probabilities)
rbm.fit(
    spins,
    sample_weight=probabilities,
    batch_size=100,
    steps_per_epoch=2000,
    epochs=arguments.epochs,
    callbacks=[kl],
    verbose=2,
)

learned = np.exp(tf_wcd.evaluation.log_prob(rbm, spins))
for remainder in range(3):
    group = np.arange(4096) % 3 == remainder
    print(f"n mod 3 = {remainder}: target {probabilities[group].sum():.4f}, model {learned[group].sum():.4f}")
curve = {"WCD_1": ([2000 * (epoch + 1) for epoch, _, _ in kl.history], [value for _, value, _ in kl.history])}
plots.compare_training(probabilities, curve, {"WCD_1": learned}, "Multiples of three").savefig(arguments.out)
print(f"Picture: {arguments.out}")
