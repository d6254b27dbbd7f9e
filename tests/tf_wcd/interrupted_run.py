"""A training that may be killed at any moment; started again, it goes on.

python -m tests.tf_wcd.interrupted_run FOLDER EPOCHS
"""

import sys
from pathlib import Path

import keras
import numpy as np

import tf_wcd


class Logs(keras.callbacks.Callback):
    """One file for each epoch: an epoch that is trained again must write the same."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        (self.folder / f"epoch{epoch}.txt").write_text(repr(sorted((k, float(v)) for k, v in logs.items())))


def main(folder, epochs):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    x = (np.random.default_rng(0).random((70, 9)) < 0.4).astype("float32")
    rbm = tf_wcd.RBMLayer(7, negative_phase="wpcd", chains=10, centered=True, seed=3)
    rbm.build((None, 9))
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), steps_per_execution=5)
    backup = keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False)
    rbm.fit(x, batch_size=16, steps_per_epoch=10, epochs=epochs, verbose=0, callbacks=[Logs(folder), backup])
    everything = [*rbm.variables, *rbm.optimizer.variables, rbm.seed_generator.state]
    np.savez(folder / "end.part.npz", **{f"{i} {v.name}": v.numpy() for i, v in enumerate(everything)})
    (folder / "end.part.npz").rename(folder / "end.npz")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
