"""Unknown entries: pictures with 30 % of their pixels lost teach more than the few that are complete.

Takes a minute. To see how it runs: ``python examples/missing_values.py --updates=200``.
"""

import argparse

import keras
import numpy as np

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=20000, help="updates of each model")
parser.add_argument("--rows", type=int, default=3000, help="number of pictures")
parser.add_argument("--unknown", type=float, default=0.3, help="chance of each pixel to be unknown")
parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
parser.add_argument("--seed", type=int, default=0, help="seed of the data and of training")
arguments = parser.parse_args()

states, probabilities = tf_wcd.datasets.load("BS16")  # 30 pictures of bars and stripes, all equally probable
spins = 2 * states - 1
rng = np.random.default_rng(arguments.seed)
truth = rng.choice(spins, arguments.rows)
x = np.where(rng.random(truth.shape) < arguments.unknown, np.nan, truth)
complete = x[~np.isnan(x).any(axis=1)]
print(f"{len(x)} pictures, {len(complete)} of them complete ({len(np.unique(complete, axis=0))} of 30 patterns)")

models = {}
# The complete ones are repeated, so that both models have batches of the same size.
for name, data in (("complete pictures", np.resize(complete, x.shape)), ("all pictures", x)):
    start = keras.initializers.RandomNormal(stddev=0.1, seed=arguments.seed)
    rbm = tf_wcd.RBMLayer(
        32, "spin", "spin", negative_phase="bcd", missing="nan", kernel_initializer=start, seed=arguments.seed
    )
    rate = keras.optimizers.schedules.PolynomialDecay(arguments.rate, arguments.updates, 0.0)
    rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
    kl = tf_wcd.callbacks.ExactKL(spins, probabilities)
    rbm.fit(data, batch_size=100, steps_per_epoch=arguments.updates // 10, epochs=10, callbacks=[kl], verbose=0)
    history = rbm.history.history["kl"]
    print(f"{name}: KL from the truth {history[-1]:.3f} after training, {min(history):.3f} at its best")
    models[name] = rbm

# What the model knows of the lost pixels: it fills them in.
lost = np.isnan(x[:500])
guesses = np.sign(models["all pictures"].impute(x[:500], seed=0))
print(f"Lost pixels filled in rightly: {np.mean(guesses[lost] == truth[:500][lost]):.1%}")
