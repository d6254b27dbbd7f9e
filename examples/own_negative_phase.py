"""Your own negative phase: half of the points start from the data, half from noise; the model weighs all of them.

Takes half a minute. To see how it runs: ``python examples/own_negative_phase.py --epochs=3``.
"""

import argparse

import keras
import tensorflow as tf

import tf_wcd
from tf_wcd.negative_phases import Points
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import gibbs_from_visible, random_visible

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=50, help="epochs of 2000 updates")
arguments = parser.parse_args()


@keras.saving.register_keras_serializable(package="examples")
class DataAndNoise(tf_wcd.NegativePhase):
    """Reconstructions of the batch, and as many of random states: points where the data are not."""

    def points(self, machine, batch, state, key):
        noise = random_visible(machine, batch.visible.shape[-2], batch_source(subkey(key, 1)), draw=0)
        starts = tf.concat([batch.visible, noise], axis=-2)
        drawn = gibbs_from_visible(machine, machine.hidden_field(starts), 1, batch_source(key)).visible
        return Points(drawn, machine.hidden_field(drawn)), state


tf_wcd.negative_phases.register("data_and_noise", DataAndNoise)

states, probabilities = tf_wcd.datasets.load("BS09")
spins = 2 * states - 1
for phase in ("wcd", "data_and_noise"):
    rbm = tf_wcd.RBMLayer(
        45,
        visible_type="spin",
        hidden_type="spin",
        negative_phase=phase,
        kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=0),
        seed=0,
    )
    rate = keras.optimizers.schedules.PolynomialDecay(0.05, 2000 * arguments.epochs, 0.0)
    rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
    rbm.fit(spins, batch_size=len(spins), steps_per_epoch=2000, epochs=arguments.epochs, verbose=0)
    kl = tf_wcd.evaluation.kl_divergence(rbm, spins, probabilities)
    print(f"{phase}: KL {kl:.5f} nats after {2000 * arguments.epochs} updates")
