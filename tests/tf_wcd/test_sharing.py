"""Models that are alike run one compiled program, each with its own variables; all others do not."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd import xla
from tf_wcd.training import sharing

X = np.random.default_rng(0).integers(0, 2, (40, 6)).astype("float32")


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(sharing, "kept", type(sharing.kept)())


def made(seed=0, rate=0.1, optimizer=None, layer=tf_wcd.RBMLayer, **options):
    rbm = layer(4, seed=seed, **options)
    rbm.compile(optimizer or keras.optimizers.SGD(rate, momentum=0.9))
    return rbm


def fitted(x=X, **options):
    rbm = made(**options)
    rbm.fit(x, batch_size=10, epochs=2, verbose=0)
    return rbm


def values(model):
    return [variable.numpy() for variable in [*model.variables, *model.optimizer.variables]]


PHASES = ["cd", "wcd", "bcd", "pcd", "wpcd", "jpcd", "pt", "ptt", "exact"]


@pytest.mark.parametrize("phase", PHASES)
def test_the_second_model_compiles_nothing_and_learns_as_it_would_alone(phase, monkeypatch):
    """Another seed, another rate, other data of the same shape: to the same bits, with the first one untouched."""
    first = fitted(negative_phase=phase)
    before, traces = values(first), sharing.times_traced()
    second = fitted(1 - X, seed=5, rate=0.03, negative_phase=phase)
    assert sharing.times_traced() == traces
    for mine, kept in zip(values(first), before, strict=True):
        np.testing.assert_array_equal(mine, kept)
    monkeypatch.setattr(sharing, "signature", lambda model: None)
    alone = fitted(1 - X, seed=5, rate=0.03, negative_phase=phase)
    for mine, own in zip(values(second), values(alone), strict=True):
        np.testing.assert_array_equal(mine, own)


def test_the_first_model_goes_on_after_the_second():
    once, first = fitted(), fitted()
    fitted(1 - X, seed=3)
    for rbm in once, first:
        rbm.fit(X, batch_size=10, verbose=0)
    np.testing.assert_array_equal(once.kernel.numpy(), first.kernel.numpy())


def test_evaluation_is_shared():
    results = [made(seed=seed).evaluate(X, batch_size=10, verbose=0) for seed in (0, 1)]
    assert results[0] != results[1]
    assert sharing.times_traced() == 1
    made(negative_phase="pcd").evaluate(X, batch_size=10, verbose=0)
    assert sharing.times_traced() == 2


def test_stacks_and_ensembles_share():
    def stack(seed):
        dbn = tf_wcd.DBN([tf_wcd.RBMLayer(5, seed=seed), tf_wcd.RBMLayer(4, seed=seed + 1)])
        dbn.compile(keras.optimizers.SGD(0.1))
        dbn.fit(X, batch_size=10, verbose=0)

    def ensemble(seed):
        fitted(seed=seed, layer=tf_wcd.RBMEnsemble, count=3)

    for train in stack, ensemble:
        train(1)
        traces = sharing.times_traced()
        train(7)
        assert sharing.times_traced() == traces


def test_a_new_learning_rate_compiles_nothing():
    rbm = fitted()
    traces = sharing.times_traced()
    rbm.optimizer.learning_rate = 0.5
    rbm.fit(X, batch_size=10, verbose=0)
    rbm.compile(keras.optimizers.SGD(0.2, momentum=0.9))
    rbm.fit(X, batch_size=10, verbose=0)
    assert sharing.times_traced() == traces


DIFFERENT = {
    "phase": {"negative_phase": "cd"},
    "option of the phase": {"negative_phase": tf_wcd.negative_phases.WCD(minimum_ess=0.5)},
    "steps": {"gibbs_steps": 2},
    "visible": {"visible_type": "spin"},
    "gaussian": {"visible_type": tf_wcd.units.Gaussian(variance=2.0)},
    "hidden": {"hidden_type": "spin"},
    "centred": {"centered": True},
    "centring": {"centered": True, "centering_rate": 0.1},
    "activity": {"activity_target": 0.1},
    "another activity": {"activity_target": 0.2},
    "regularizer": {"kernel_regularizer": keras.regularizers.L2(0.1)},
    "stronger regularizer": {"kernel_regularizer": keras.regularizers.L2(0.2)},
    "double": {"dtype": "float64"},
    "half": {"dtype": "mixed_bfloat16"},
    "decay": {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.1)},
    "momentum": {"optimizer": keras.optimizers.SGD(0.1, momentum=0.5)},
    "clipping": {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0)},
    "adam": {"optimizer": keras.optimizers.Adam(0.1)},
    "schedule": {"optimizer": keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 9), momentum=0.9)},
    "members": {"layer": tf_wcd.RBMEnsemble, "count": 2},
    "rates of members": {"layer": tf_wcd.RBMEnsemble, "learning_rates": [0.1, 0.2]},
}


def test_models_that_differ_do_not_share():
    signatures = []
    for options in ({}, *DIFFERENT.values()):
        rbm = made(**options)
        rbm.build((None, 6))
        rbm.prepare(10)
        signatures.append(sharing.signature(rbm))
    frozen = made()
    frozen.build((None, 6))
    frozen.visible_bias.trainable = False
    frozen.prepare(10)
    signatures.append(sharing.signature(frozen))
    assert None not in signatures
    assert len(set(signatures)) == len(signatures)


class Own(tf_wcd.negative_phases.NegativePhase):
    """A phase whose configuration does not say what it does."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def points(self, machine, batch, state, key):
        return tf_wcd.negative_phases.Points(
            batch.visible, batch.hidden_field, self.sign * batch.visible[..., 0]
        ), state


class Layer(tf_wcd.RBMLayer):
    pass


def decaying(without):
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=[without])
    return optimizer


@pytest.mark.parametrize(
    "options",
    [
        {"negative_phase": Own(1.0)},
        {"layer": Layer},
        {"optimizer": decaying(without="bias")},
        {"kernel_regularizer": lambda kernel: 0.1 * tf.reduce_sum(kernel)},
    ],
    ids=["phase", "subclass", "exclusions from decay", "function"],
)
def test_what_nobody_can_compare_is_not_shared(options):
    rbm = fitted(**options)
    assert sharing.signature(rbm) is None
    assert not sharing.kept


def test_phases_of_users_keep_apart():
    one, other = (fitted(negative_phase=Own(sign)) for sign in (5.0, -5.0))
    assert not np.allclose(one.kernel, other.kernel)


def test_a_program_that_would_hold_variables_of_one_model_is_refused():
    passed, held = tf.Variable(1.0), tf.Variable(2.0)
    program = sharing.Program(jit_compile=False)
    assert float(program(lambda: passed + 1.0, [passed])) == 2.0
    with pytest.raises(AssertionError, match="must hold no variables of one model"):
        sharing.Program(jit_compile=False)(lambda: passed + held, [passed])


def test_only_so_many_are_kept(monkeypatch):
    monkeypatch.setattr(sharing, "PROGRAMS_KEPT", 2)
    programs = [sharing.shared_program(number, False) for number in (1, 2, 1, 3)]
    assert programs[0] is programs[2]
    assert len(sharing.kept) == 2
    assert sharing.shared_program(1, False) is programs[0]
    assert sharing.shared_program(2, False) is not programs[1]


def test_threads_that_train_at_once():
    """Models of the same signature, in batches of different sizes, so that both trace."""

    def train(seed, rows, results):
        rbm = made(seed=seed)
        rbm.fit(X[:rows], batch_size=rows // 4, epochs=3, verbose=0)
        results[seed] = rbm.kernel.numpy()

    together, apart = {}, {}
    threads = [threading.Thread(target=train, args=(seed, 20 + 4 * seed, together)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        train(seed, 20 + 4 * seed, apart)
        np.testing.assert_array_equal(together[seed], apart[seed])


@pytest.mark.xla
@pytest.mark.parametrize(("seconds", "with_xla"), [(1e9, {False}), (0.0, {True})])
def test_only_trainings_that_pay_for_the_compiler_use_it(seconds, with_xla, monkeypatch):
    monkeypatch.setattr(xla, "SECONDS_OF_COMPILING", seconds)
    rbm = made(negative_phase="cd")
    rbm.fit(X, batch_size=10, epochs=2, verbose=0, validation_data=X)
    assert {jit for _, jit in sharing.kept} == with_xla


@pytest.mark.xla
def test_a_training_that_goes_on_decides_as_it_would_have_at_once(monkeypatch, tmp_path):
    """What counts are all updates of the model, those before a restart included."""
    asked = []
    monkeypatch.setattr(xla, "pays", lambda updates, flops: bool(asked.append(updates)))

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    def train(rbm, *callbacks):
        rbm.build((None, 6))
        backup = keras.callbacks.BackupAndRestore(tmp_path)
        rbm.fit(X, batch_size=10, epochs=6, verbose=0, callbacks=[*callbacks, backup])

    stopped = made()
    with pytest.raises(KeyboardInterrupt):
        train(stopped, Stop())
    train(made())  # in another process
    fitted()
    rbm = fitted()
    rbm.fit(X, batch_size=10, epochs=1, verbose=0)
    assert asked == [24, 24, 8, 8, 12]
    assert {jit for _, jit in sharing.kept} == {False}
