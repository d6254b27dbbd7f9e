"""A little of everything in an installed package, for `try_bounds.py`: prints the named versions, and "fine"."""

import sys
from importlib.metadata import version
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import serving
import tf_wcd
from serving.options import Options
from serving.server import Server
from tf_wcd import evaluation, plots
from trainers.runs.small_problems import Training
from trainers.settings.runs import SmallRun
from trainers.studies.search import train_with_tuner

print("  " + ", ".join(f"{name} {version(name)}" for name in sys.argv[1:]), flush=True)
assert "site-packages" in tf_wcd.__file__, tf_wcd.__file__

# Fit, with callbacks; an ensemble; a network on top.
states, probabilities = tf_wcd.datasets.load("BS09")
rbm = tf_wcd.RBMLayer(12, negative_phase="wpcd", centered=True, seed=0)
rbm.compile(keras.optimizers.SGD(0.05, momentum=0.5))
callbacks = [
    tf_wcd.callbacks.ExactKL(states, probabilities),
    tf_wcd.callbacks.RBMTensorBoard("logs", train=states, gibbs_steps=10),
    keras.callbacks.ModelCheckpoint("best.keras", monitor="kl", mode="min", save_best_only=True),
]
history = rbm.fit(states, sample_weight=probabilities, batch_size=14, steps_per_epoch=500, epochs=2, verbose=0,
                  callbacks=callbacks)  # fmt: skip
assert history.history["kl"][-1] < np.log(2**9 / 14), history.history
stack = keras.Sequential([tf_wcd.RBMLayer(5, seed=0), keras.layers.Dense(2)])
stack.compile("adam", "mse")
stack.fit(states, states[:, :2], verbose=0)

# Save and load: the same model, which goes on to the same result.
rbm.save("rbm.keras")
again = keras.models.load_model("rbm.keras")
for model in (rbm, again):
    model.fit(states, batch_size=14, steps_per_epoch=10, verbose=0)
np.testing.assert_array_equal(rbm.kernel, again.kernel)

# Evaluate: exact, annealed, and as a distribution of TensorFlow Probability.
exact = evaluation.log_partition(rbm)
annealed = evaluation.annealed_log_partition(rbm, data=states, chains=50, temperatures=200, seed=0)
assert abs(annealed.estimate - exact) < 5 * annealed.standard_error + 1e-3, (exact, annealed)
assert np.isfinite(rbm.evaluate(states, verbose=0)).all()
np.testing.assert_allclose(rbm.distribution().log_prob(states), evaluation.log_prob(rbm, states), atol=1e-3)
plots.image_sheet(rbm.sample(8, gibbs_steps=10, seed=0), (3, 3)).savefig("samples.png")

# A Deep Belief Network.
dbn = tf_wcd.DBN([tf_wcd.RBMLayer(6, seed=0), tf_wcd.RBMLayer(5, seed=1)])
for layer in dbn.rbms:
    layer.compile("sgd")
dbn.pretrain(states, epochs=1, batch_size=14, verbose=0)
dbn.compile("sgd")
dbn.fit(states, verbose=0)
assert np.isfinite(evaluation.variational_bound(dbn, states).mean)

# Export, and serve.
path = serving.publish(rbm, "models/rbm", gibbs_steps=20)
direct = tf.saved_model.load(str(path)).signatures["sample"](seed=tf.constant([1, 2], tf.int64))
server = Server(Options(port=-1, model_name="rbm", model_base_path="models/rbm"))
server.start()
try:
    with serving.SamplerClient(f"127.0.0.1:{server.port}", "rbm") as client:
        served = client.gibbs(states, steps=3, seed=0)
        energies = client.free_energy(states)
finally:
    server.stop()
assert direct["visible"].shape == (2, 9)
assert served.shape == (14, 9)
np.testing.assert_allclose(energies, rbm.free_energy(states), rtol=1e-3, atol=1e-3)

# A search with KerasTuner.
records: list = []
settings = SmallRun("BS09", "wcd", 1, 9, 0.05, 0.01, "linear", 0.9, 200, 0)
train_with_tuner([settings], records.extend, Training(0, 2, Path("tuner"), verbose=False))
assert records[0]["min_kl"] > 0, records
print("  fine")
