"""From a trained model to samples over gRPC: publish a version, serve it, ask for samples, publish a better one.

Takes half a minute. To see how it runs: ``python examples/publish_serve_sample.py --epochs=1``.
"""

import argparse
import tempfile
import time

import keras
import numpy as np

import serving
import tf_wcd
from serving.options import Options
from serving.server import Server

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=30, help="epochs of 2000 updates before each version")
parser.add_argument("--out", default=None, help="folder of the versions; a temporary one if not given")
arguments = parser.parse_args()
folder = arguments.out or tempfile.mkdtemp()

states, probabilities = tf_wcd.datasets.load("BS09")
spins = 2 * states - 1
rbm = tf_wcd.RBMLayer(
    18,
    visible_type="spin",
    hidden_type="spin",
    negative_phase="wcd",
    kernel_initializer=keras.initializers.RandomNormal(stddev=0.1, seed=0),
    seed=0,
)
rbm.compile(keras.optimizers.SGD(0.01, momentum=0.9))


def train_and_publish():
    rbm.fit(spins, batch_size=len(spins), steps_per_epoch=2000, epochs=arguments.epochs, verbose=0)
    print(f"Published: {serving.publish(rbm, folder, keep=2, gibbs_steps=500)}")


train_and_publish()
server = Server(Options(port=-1, model_name="bars", model_base_path=folder, file_system_poll_wait_seconds=0.2))
server.start()  # in production this is `wcd serve`, or TF-Serving, on another machine
try:
    with serving.SamplerClient(f"127.0.0.1:{server.port}", "bars") as client:
        for version in (1, 2):
            if version == 2:
                train_and_publish()  # the server picks it up by itself
            while client.status().get(version) != "AVAILABLE":
                time.sleep(0.1)
            samples = client.sample(500, seed=0)
            right = (samples[:, None] == spins[None]).all(axis=-1).any(axis=-1)
            print(f"Version {version}: {np.mean(right):.0%} of 500 samples are bars or stripes")
finally:
    server.stop()
