"""`model.fit` with Keras' callbacks: the exact divergence along training, the best model on disk, a log, an early end.

Takes half a minute. To see how it runs: ``python examples/fit_with_callbacks.py --epochs=3``.
"""

import argparse
from pathlib import Path

import keras

import tf_wcd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=100, help="epochs of 2000 updates")
parser.add_argument("--out", default="bars_and_stripes", help="folder for the model and the log")
arguments = parser.parse_args()
folder = Path(arguments.out)
folder.mkdir(parents=True, exist_ok=True)

# Pictures of 4 x 4 pixels whose rows, or whose columns, are each all on or all off.
states, probabilities = tf_wcd.datasets.load("BS16")
spins = 2 * states - 1

rbm = tf_wcd.RBMLayer(32, visible_type="spin", hidden_type="spin", negative_phase="wcd", seed=0)
rate = keras.optimizers.schedules.PolynomialDecay(0.05, 2000 * arguments.epochs, 0.0)
rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
history = rbm.fit(
    spins,
    batch_size=len(spins),
    steps_per_epoch=2000,
    epochs=arguments.epochs,
    callbacks=[
        # The first one puts `kl` into the logs, for those that follow.
        tf_wcd.callbacks.ExactKL(spins, probabilities),
        keras.callbacks.ModelCheckpoint(folder / "best.keras", monitor="kl", mode="min", save_best_only=True),
        keras.callbacks.CSVLogger(folder / "log.csv"),
        keras.callbacks.EarlyStopping(monitor="kl", mode="min", patience=50),
    ],
    verbose=2,
)

best = keras.models.load_model(folder / "best.keras")
kl = tf_wcd.evaluation.kl_divergence(best, spins, probabilities)
print(f"Best model: KL {kl:.5f} nats from the truth, in {folder / 'best.keras'}")
