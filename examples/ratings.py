"""Ratings of which most are missing: an RBM of Potts units fills them in (Salakhutdinov, Mnih and Hinton 2007).

In their paper each user has an RBM of the items that he rated; here one RBM has all items, and averages over the
unknown ones. Takes a minute. To see how it runs: ``python examples/ratings.py --epochs=1``.
"""

import argparse

import keras
import numpy as np

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=150, help="passes over the users")
parser.add_argument("--seed", type=int, default=0, help="seed of the ratings and of training")
arguments = parser.parse_args()

# 2000 users and 40 items with 3 hidden tastes: stars from 1 to 5, of which each user has given about a fifth.
USERS, ITEMS, STARS = 2000, 40, 5
rng = np.random.default_rng(arguments.seed)
tastes, traits = rng.normal(size=(USERS, 3)), rng.normal(size=(3, ITEMS))
stars = np.clip(np.rint(3 + rng.normal(0, 0.7, ITEMS) + tastes @ traits + rng.normal(0, 0.5, (USERS, ITEMS))), 1, 5)
chance = rng.random(stars.shape)
train, test = np.where(chance < 0.2, stars, np.nan), np.where(chance > 0.9, stars, np.nan)


def rmse(prediction):
    """Error on the ratings that nobody has trained on."""
    return np.sqrt(np.nanmean((np.clip(prediction, 1, STARS) - test) ** 2))


means = np.nanmean(train, axis=0)
print(f"Item means: RMSE {rmse(means):.3f}")

# Matrix factorisation by alternating least squares; the penalty is the best of four on other seeds.
known, centred = ~np.isnan(train), np.nan_to_num(train - means)
users, items = rng.normal(size=(USERS, 3)), rng.normal(size=(ITEMS, 3))
for _ in range(20):
    for one, other, mask, rows in ((users, items, known, centred), (items, users, known.T, centred.T)):
        squares = np.einsum("rc,ci,cj->rij", mask, other, other) + 1.0 * np.eye(3)
        one[:] = np.linalg.solve(squares, (rows @ other)[..., None])[..., 0]
print(f"Matrix factorisation: RMSE {rmse(means + users @ items.T):.3f}")

# One group of five columns for each item, all of them NaN where there is no rating.
x = (train[..., None] == np.arange(1, STARS + 1)).astype("float32")
x[np.isnan(train)] = np.nan
x = x.reshape(USERS, -1)
start = keras.initializers.RandomNormal(stddev=0.1, seed=0)
rbm = tf_wcd.RBMLayer(
    10, tf_wcd.units.Potts(STARS), negative_phase="cd", missing="nan", kernel_initializer=start, seed=arguments.seed
)
rbm.compile(keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(0.03, arguments.epochs * 20, 0.0)))
rbm.start_at_means(x)
rbm.fit(x, batch_size=100, epochs=arguments.epochs, verbose=0)
chances = rbm.impute(x).numpy().reshape(USERS, ITEMS, STARS)
chances[known] = 0.2  # these are not asked for
print(f"RBM: RMSE {rmse(chances @ np.arange(1, STARS + 1)):.3f}")
