"""Trainings that may be killed at any moment; started again, they go on.

python -m tests.support.interrupted_run FOLDER CASE...

Each case has a folder of its own: a file for each epoch with its logs, and `end.npz` with every variable at the end.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tf_wcd

EPOCHS = 15
FIRST_LAYER = 6  # epochs of the lower layer of the stack; the upper one has the rest
X = (np.random.default_rng(0).random((70, 9)) < 0.4).astype("float32")


class Logs(keras.callbacks.Callback):
    """One file for each epoch: an epoch that is trained again must write the same."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        (self.folder / f"epoch{epoch}.txt").write_text(repr(sorted((k, float(v)) for k, v in logs.items())))


def callbacks(folder):
    return [Logs(folder), keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False)]


def layer(phase, steps_per_execution, jit_compile, **arguments):
    rbm = tf_wcd.RBMLayer(7, negative_phase=phase, centered=True, seed=3, name="rbm", **arguments)
    rbm.build((None, 9))
    rbm.compile(
        keras.optimizers.SGD(0.05, momentum=0.9), steps_per_execution=steps_per_execution, jit_compile=jit_compile
    )
    return rbm


def single(folder):
    """One update at each call, with weighted chains and observers, and a smaller batch at the end of each pass."""
    rbm = layer(tf_wcd.negative_phases.JPCD(chains=10, observers=20, resample_below=0.9), 1, jit_compile=False)
    rbm.fit(X, batch_size=16, epochs=EPOCHS, verbose=0, callbacks=callbacks(folder))
    return [rbm]


def compiled(folder):
    """Several updates at each call; passes over the data without a seam, which no epoch begins with."""
    rbm = layer("wpcd", 4, jit_compile=True, chains=10)
    rbm.fit(X, batch_size=16, steps_per_epoch=10, epochs=EPOCHS, verbose=0, callbacks=callbacks(folder))
    return [rbm]


def stream(folder):
    """A data set, one pass at each epoch."""
    rbm = layer("wcd", 3, jit_compile=True)
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(16)
    rbm.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=callbacks(folder))
    return [rbm]


def stack(folder):
    """Layer by layer, with labels on top, each layer fed with samples of the one below.

    The five updates of an epoch are no multiple of the three of a call.
    """
    dbn = tf_wcd.DBN(
        [
            tf_wcd.RBMLayer(6, negative_phase="wpcd", seed=1, name="one"),
            tf_wcd.RBMLayer(
                5, visible_type=tf_wcd.units.Labelled("bernoulli", 3), negative_phase="pcd", seed=2, name="two"
            ),
        ],
        name="dbn",
    )
    for rbm in dbn.rbms:
        # Without XLA, which takes longer to compile.
        rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), steps_per_execution=3, jit_compile=False)
    epochs = (FIRST_LAYER, EPOCHS - FIRST_LAYER)
    labels = np.arange(70) % 3
    dbn.pretrain(X, labels, epochs=epochs, batch_size=16, inputs="samples", callbacks=callbacks(folder), verbose=0)
    return dbn.rbms


CASES = {"single": single, "compiled": compiled, "stream": stream, "stack": stack}


def main(folder, *cases):
    for case in cases:
        own = Path(folder) / case
        own.mkdir(parents=True, exist_ok=True)
        if (own / "end.npz").exists():
            continue
        everything = [
            v
            for rbm in CASES[case](own)
            for v in (*rbm.variables, *rbm.optimizer.variables, rbm.seed_generator.state, *rbm.chain_variables.values())
        ]
        np.savez(own / "part.npz", **{f"{i} {v.name}": v.numpy() for i, v in enumerate(everything)})
        (own / "part.npz").rename(own / "end.npz")


if __name__ == "__main__":
    main(*sys.argv[1:])
