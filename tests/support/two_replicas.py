"""Trains the same models on one device and on two virtual ones; a process of its own, as devices are set up once.

python -m tests.support.two_replicas RESULTS.npz main|more
"""

import itertools
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd import replicas
from tf_wcd.negative_phases import (
    CD,
    JPCD,
    PCD,
    PT,
    PTT,
    WCD,
    WPCD,
    Exact,
    FixedPoints,
    NegativePhase,
    Points,
    PointSource,
)
from tf_wcd.negative_phases.points import Joined, Neighbours, Reconstructions
from tf_wcd.negative_phases.points.reconstructions import Reconstructed
from tf_wcd.negative_phases.weights import BalancedWeights, UniformWeights, model_log_weights, resampled

ROWS, VISIBLE, HIDDEN = 16, 5, 3


class FromBatch:
    """Points that depend on the rows of the batch alone: its rows with their units moved by one."""

    def points(self, machine, batch, state, key):
        visible = tf.roll(batch.visible, 1, axis=-1)
        return Points(visible, machine.hidden_field(visible)), state


class FromMeans(PointSource):
    """Reconstructions without chance: hidden units are 1 where that is likelier, visible units moved by one."""

    def points(self, machine, batch, state, key):
        hidden = tf.cast(batch.hidden_field > 0, batch.visible.dtype)
        visible = tf.roll(batch.visible, 1, axis=-1)
        fields = {"hidden": hidden, "visible_field": machine.visible_field(hidden)}
        return Reconstructed(visible, machine.hidden_field(visible), **fields), state


class FromChains:
    """Points that depend on the chains alone: their visible states with the units moved by one, at each update."""

    def points(self, machine, batch, state, key):
        visible = tf.roll(state["visible"], 1, axis=-1)
        return Points(visible, machine.hidden_field(visible)), {**state, "visible": visible}


class Resampling(UniformWeights):
    """Resamples the chains before each update, by the model's weights and always the same random number."""

    def before(self, machine, state, key):
        log_weights = model_log_weights(machine, state["visible"])
        number = 0.3 + 0.1 * tf.cast(replicas.own_part(tf.range(2))[0], "float32")  # that of the first replica counts
        return {name: resampled(value, log_weights, number) for name, value in state.items()}


def plain(name, *bases):
    return type(name, bases, {"name": None})


cd, wcd = plain("CDPoints", FromBatch, CD), plain("WCDPoints", FromBatch, WCD)
pcd, wpcd = plain("PCDPoints", FromChains, PCD), plain("WPCDPoints", FromChains, WPCD)
jpcd = plain("JPCDPoints", FromChains, JPCD)
sgd = keras.optimizers.SGD


def resampling():
    phase = pcd(chains=6)
    phase.weights = Resampling()
    return phase


# Each: negative phase, arguments of the layer, optimizer, batch size of the 16 rows.
CASES = {
    "cd": (lambda: cd(), {}, lambda: sgd(0.5), 8),
    "wcd": (lambda: wcd(), {}, lambda: sgd(0.5), 8),
    "pcd": (lambda: pcd(chains=6), {}, lambda: sgd(0.5), 8),
    "wpcd": (lambda: wpcd(chains=6), {}, lambda: sgd(0.5), 8),
    "jpcd": (lambda: jpcd(chains=6, observers=0, resample_below=0), {}, lambda: sgd(0.5), 8),
    "resampled": (resampling, {}, lambda: sgd(0.5), 8),
    "balanced": (lambda: NegativePhase(FromMeans(), BalancedWeights()), {}, lambda: sgd(0.5), 8),
    "balanced on the visible side": (
        lambda: NegativePhase(FromMeans(), BalancedWeights("visible")),
        {},
        lambda: sgd(0.5),
        11,
    ),
    "joined": (
        lambda: NegativePhase(Joined([FromMeans(), Reconstructions(0), Neighbours()]), BalancedWeights("visible")),
        {},
        lambda: sgd(0.5),
        11,
    ),
    "exact": (lambda: Exact(), {}, lambda: sgd(0.5), 8),
    "fixed": (lambda: FixedPoints(np.eye(5)[:3]), {}, lambda: sgd(0.5), 8),
    "tempered": (lambda: wcd(minimum_ess=0.7), {}, lambda: sgd(0.5), 8),
    "tempered chains": (lambda: wpcd(chains=6, minimum_ess=0.7), {}, lambda: sgd(0.5), 8),
    "centred": (lambda: wcd(), {"centered": True, "centering_rate": 0.3}, lambda: sgd(0.5), 8),
    "spins": (lambda: wpcd(), {"visible_type": "spin", "hidden_type": "spin"}, lambda: sgd(0.5), 8),
    "gaussian": (
        lambda: wcd(),
        {"visible_type": tf_wcd.units.Gaussian(learn_variance=True)},
        lambda: sgd(0.05),
        8,
    ),
    "uneven": (lambda: wcd(), {}, lambda: sgd(0.5), 11),
    "one row": (lambda: wcd(), {}, lambda: sgd(0.5), 15),
    "clipped": (lambda: wcd(), {}, lambda: sgd(0.5, momentum=0.9, weight_decay=0.01, clipnorm=0.05), 8),
    "adam": (lambda: wpcd(), {}, lambda: keras.optimizers.Adam(0.05), 8),
}


MAIN = ("wcd", "balanced", "jpcd", "centred")
MORE = tuple(case for case in CASES if case not in MAIN)


def data(arguments):
    x = (np.random.default_rng(0).random((ROWS, VISIBLE)) < [0.2, 0.5, 0.7, 0.4, 0.9]).astype("float32")
    return 2 * x - 1 if arguments.get("visible_type") == "spin" else x


def layer(phase, arguments, optimizer, run_eagerly):
    rbm = tf_wcd.RBMLayer(
        HIDDEN,
        negative_phase=phase(),
        kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=7),
        visible_bias_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=8),
        seed=1,
        **arguments,
    )
    # One update at each call, so that one device measures at each update, as replicas do.
    rbm.compile(optimizer(), run_eagerly=run_eagerly, steps_per_execution=1)
    return rbm


def train(case, strategy):
    """Parameters after one pass, metrics of each epoch and chains, by name."""
    phase, arguments, optimizer, batch_size = CASES[case]
    with strategy.scope():
        # Compilation takes most of the time: one case is enough for it.
        rbm = layer(phase, arguments, optimizer, run_eagerly=case != "wpcd")
    weights = np.random.default_rng(2).random(ROWS)
    history = rbm.fit(data(arguments), sample_weight=weights, batch_size=batch_size, epochs=1, verbose=0)
    others = [v for v in rbm.non_trainable_variables if "offset" in v.name]
    return {
        **{f"parameter {v.name}": v.numpy() for v in [*rbm.trainable_variables, *others]},
        **{f"chains {name}": value for name, value in rbm.chain_states().items()},
        "metric loss": history.history["loss"],
        "metric ess": history.history["ess"],
        "metric reconstruction_error": history.history["reconstruction_error"],
    }


def own_draws(strategy, folder):
    """With real draws: what the replicas draw, twice; and a model that goes on with one device after it was saved."""
    results = {}
    for run in "ab":
        with strategy.scope():
            rbm = tf_wcd.RBMLayer(40, negative_phase=PCD(chains=8), seed=5)
            rbm.compile(sgd(0.0))
        if run == "b":  # an evaluation before training has a share of its own chains on each replica, and leaves none
            results["draws measured"] = rbm.evaluate(np.ones((16, 30)), batch_size=16, verbose=0)
            assert rbm.chain_variables == {}
        rbm.fit(np.ones((16, 30)), batch_size=8, verbose=0)
        results[f"draws {run}"] = rbm.chain_states()["visible"]
    rbm.save(f"{folder}/two.keras")
    one = keras.models.load_model(f"{folder}/two.keras")
    results["draws loaded"] = one.chain_variables["visible"].numpy()
    one.fit(np.ones((16, 30)), batch_size=8, verbose=0)
    one.save(f"{folder}/one.keras")
    with strategy.scope():
        results["draws again"] = keras.models.load_model(f"{folder}/one.keras").chain_states()["visible"]
    results["draws one"] = one.chain_variables["visible"].numpy()
    return results


def observed(strategy, folder):
    """Chains that move, are resampled and watched: the weights of all replicas, and log Z there and on one device."""
    with strategy.scope():
        rbm = layer(lambda: JPCD(chains=20, observers=200, resample_below=0.99), {}, lambda: sgd(0.3), run_eagerly=True)
    history = rbm.fit(data({}), batch_size=8, epochs=3, verbose=0).history
    online = tf_wcd.evaluation.online_log_partition(rbm)
    rbm.save(f"{folder}/observed.keras")
    one = keras.models.load_model(f"{folder}/observed.keras")
    alone = tf_wcd.evaluation.online_log_partition(one)
    return {
        "observed weights": np.exp(rbm.chain_states()["log_weights"]),
        "observed groups": rbm.chain_states()["observer_log_partition"],
        "observed resamplings": rbm.chain_states()["resamplings"],
        "observed online": [online.estimate, online.standard_error],
        "observed alone": [alone.estimate, alone.standard_error],
        "observed metric": history["online_log_partition"],
        "observed exact": tf_wcd.evaluation.log_partition(one),
    }


def exchanged(strategy):
    """Chains that swap states, in temperature and along the training, whose ladder all replicas share."""
    results = {}
    for name, phase in (
        ("pt", lambda: PT(chains=400, temperatures=4)),
        ("ptt", lambda: PTT(chains=400, threshold=0.9)),
    ):
        with strategy.scope():
            rbm = layer(phase, {}, lambda: sgd(0.5), run_eagerly=True)
        rbm.fit(data({}), batch_size=8, epochs=6, verbose=0)
        kernels = [values.numpy() for values in strategy.experimental_local_results(rbm.kernel.value)]
        state = rbm.chain_states()
        results |= {
            f"exchanged {name} kernels": kernels,
            f"exchanged {name} visible": state["visible"],
            f"exchanged {name} swap_rates": state["swap_rates"],
            f"exchanged {name} exact": tf.nn.softmax(-rbm.free_energy(every_state())),
        }
    online = tf_wcd.evaluation.online_log_partition(rbm)
    results |= {
        "exchanged rungs": state["rungs"],
        "exchanged online": [online.estimate, online.standard_error],
        "exchanged log_partition": tf_wcd.evaluation.log_partition(rbm),
        "exchanged samples": rbm.sample(2000, gibbs_steps=20, method="ptt", seed=3),
    }
    return results


def every_state():
    return np.array(list(itertools.product([0, 1], repeat=VISIBLE)), "float32")


def divergence(strategy):
    """A learning rate that is far too high: the error, and chains before and after."""
    with strategy.scope():
        rbm = tf_wcd.RBMLayer(3, visible_type="gaussian", negative_phase=PCD(chains=4), seed=5)
        rbm.compile(sgd(3e38), run_eagerly=True)
    x = 100 * np.random.default_rng(0).normal(size=(8, VISIBLE))
    rbm.start_chains(x[:4])
    before = rbm.chain_states()["visible"]
    try:
        rbm.fit(x, batch_size=8, epochs=3, verbose=0)
    except tf_wcd.DivergenceError as error:
        message = str(error)
    return {"diverged message": message, "diverged before": before, "diverged after": rbm.chain_states()["visible"]}


def stack(strategy):
    """A DBN with layers whose points are the batch's."""
    with strategy.scope():
        arguments = {"kernel_initializer": keras.initializers.RandomNormal(stddev=1.0, seed=7)}
        rbms = [tf_wcd.RBMLayer(n, negative_phase=p(), seed=n, **arguments) for n, p in ((4, wcd), (3, cd))]
        for rbm in rbms:
            rbm.compile(sgd(0.2), run_eagerly=True)
        dbn = tf_wcd.DBN(rbms)
    dbn.pretrain(data({}), epochs=2, batch_size=8, verbose=0)
    return {f"parameter {i} {v.name}": v.numpy() for i, rbm in enumerate(rbms) for v in rbm.trainable_variables}


def up_down(strategy):
    """What the up-down algorithm says of several replicas."""
    with strategy.scope():
        dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4), tf_wcd.RBMLayer(3)])
        dbn.compile("sgd")
    messages = []
    for call in (dbn.fit, dbn.evaluate):
        try:
            call(data({}), verbose=0)
        except ValueError as error:
            messages.append(str(error))
    return {"up-down messages": messages}


def main(path, part):
    tf.get_logger().setLevel("ERROR")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results, start = {}, time.perf_counter()
    for number, strategy in ((1, one), (2, two)):
        for case in MAIN if part == "main" else MORE:
            print(f"{time.perf_counter() - start:6.1f} s: {case} on {number}", flush=True)
            results |= {f"{case}|{number}|{name}": value for name, value in train(case, strategy).items()}
        if part == "more":
            results |= {f"stack|{number}|{name}": value for name, value in stack(strategy).items()}
    if part == "more":
        results |= divergence(two) | exchanged(two)
    else:
        folder = path.rpartition("/")[0]
        results |= own_draws(two, folder) | observed(two, folder) | up_down(two)
    np.savez(path, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
