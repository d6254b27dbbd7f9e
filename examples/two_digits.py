"""Chains that never cross: 0s and 1s of MNIST, learned with persistent chains and with parallel trajectory tempering.

Persistent chains stay the digits that they are, whatever the model says of the two, so nearly all of its probability
may end in one digit, unseen. Chains that swap states with frozen moments of the training keep the shares of the data.
With 16 hidden units, log-likelihoods and samples are exact. A minute; ``--updates=300`` to see how it runs.
"""

import argparse

import keras
import numpy as np

import tf_wcd
from tf_wcd.sampling import exact_sampler

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=6000, help="updates of each model")
parser.add_argument("--rate", type=float, default=0.02, help="learning rate at the start")
parser.add_argument("--seed", type=int, default=0, help="seed of both models")
arguments = parser.parse_args()

(x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist", binarize="threshold")
x, y = x[y < 2][:1260], y[y < 2][:1260]  # a tenth of the two digits
x_test = x_test[y_test < 2]
means = np.stack([x[y == digit].mean(axis=0) for digit in (0, 1)])


def zeros(images):
    """Percentage of images that are nearer to the mean 0 than to the mean 1."""
    distances = np.square(images[:, None] - means).sum(axis=-1)
    return 100 * np.mean(distances[:, 0] < distances[:, 1])


print(f"data: {zeros(x):.1f} % zeros")
for phase in ("pcd", "ptt"):
    rbm = tf_wcd.RBMLayer(16, negative_phase=phase, chains=100, centered=True, seed=arguments.seed)
    rbm.build((None, 784))
    rbm.start_at_means(x)
    rate = keras.optimizers.schedules.PolynomialDecay(arguments.rate, arguments.updates, arguments.rate / 10)
    rbm.compile(keras.optimizers.SGD(rate))
    rbm.fit(x, batch_size=100, steps_per_epoch=arguments.updates // 3, epochs=3, verbose=0)
    likelihood = tf_wcd.evaluation.log_likelihood(rbm, x_test).mean
    samples = np.asarray(exact_sampler(rbm.machine()).sample(4000, rbm.sampling_key(1)))
    chains = rbm.chain_states()["visible"]
    shares = f"{zeros(samples):.1f} % zeros ({zeros(chains):.0f} % of its chains)"
    print(f"{phase}: test log-likelihood {likelihood:.1f} nats, {shares}")
