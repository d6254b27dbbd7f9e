"""Two workers on one machine train one model, as many machines would: each is a process with its own TF_CONFIG.

Takes about a minute. On real machines, start this with ``--worker`` and the TF_CONFIG of each.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=2000, help="updates of the model")
parser.add_argument("--worker", action="store_true", help="be one of the workers")
arguments = parser.parse_args()


def work():
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow; it reads TF_CONFIG
    import tf_wcd

    states, probabilities = tf_wcd.datasets.load("BS16")
    spins = 2 * states - 1
    with strategy.scope():
        rbm = tf_wcd.RBMLayer(32, visible_type="spin", hidden_type="spin", negative_phase="wcd", seed=0)
        rate = keras.optimizers.schedules.PolynomialDecay(0.05, arguments.updates, 0.0)
        rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
    # The 30 states of each update are divided among the workers; weights are normalised over all 30.
    rbm.fit(spins, batch_size=len(spins), steps_per_epoch=arguments.updates, verbose=0)
    kl = tf_wcd.evaluation.kl_divergence(rbm, spins, probabilities)
    worker = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    print(f"Worker {worker} of {strategy.num_replicas_in_sync}: KL {kl:.4f} nats", flush=True)


if arguments.worker:
    work()
else:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        command = [sys.executable, __file__, "--worker", f"--updates={arguments.updates}"]
        workers.append(subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config}))
    sys.exit(max(worker.wait() for worker in workers))
