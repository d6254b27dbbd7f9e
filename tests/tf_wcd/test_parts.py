"""Members of an ensemble in parts: the same random numbers, the same paths, the same metrics."""

import keras
import numpy as np
import pytest

import tf_wcd
from tf_wcd.negative_phases.points import PersistentChains, Reconstructions, TemperedChains
from tf_wcd.negative_phases.weights import BalancedWeights, JarzynskiWeights, ModelWeights
from tf_wcd.training import parts, sharing

X = np.random.default_rng(0).integers(0, 2, (10, 5)).astype("float32")
RATES = np.linspace(0.01, 0.3, 17)


def fitted(cores, monkeypatch, callbacks=(), **options):
    monkeypatch.setattr(parts, "cores", lambda: cores)
    ensemble = tf_wcd.RBMEnsemble(3, **{"count": 17, "learning_rates": RATES, "seed": 2, **options})
    ensemble.compile(keras.optimizers.SGD(1.0, momentum=0.9), jit_compile=True, steps_per_execution=2)
    ensemble.build((None, 5))
    history = ensemble.fit(X, batch_size=5, epochs=3, verbose=0, callbacks=[*callbacks])
    return ensemble, history.history


def values(model):
    return [variable.numpy() for variable in [*model.variables, *model.optimizer.variables]]


@pytest.mark.xla
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"negative_phase": "bcd", "gibbs_steps": 2}, marks=pytest.mark.slow),
        {"negative_phase": "wpcd", "centered": True, "chains": 4, "initial_stddev": list(RATES)},
    ],
    ids=["bcd", "wpcd"],
)
def test_parts_take_the_paths_of_the_whole(options, monkeypatch):
    """17 members in parts of 8 and 9; each draws what it would draw among all of them."""
    (whole, logs), (apart, same) = (fitted(cores, monkeypatch, **options) for cores in (1, 2))
    for mine, theirs in zip(values(apart), values(whole), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-6)
    for name in logs:
        np.testing.assert_allclose(same[name], logs[name], rtol=1e-5, atol=1e-6)


@pytest.mark.xla
def test_parts_of_one_size_share_a_program_and_go_on_to_the_same_bits(monkeypatch, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(sharing, "kept", type(sharing.kept)())
    options = {"count": 16, "learning_rates": RATES[:16]}
    once, _ = fitted(2, monkeypatch, **options)
    traces = sharing.times_traced()
    assert traces == 1
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fitted(2, monkeypatch, callbacks=[Stop(), backup], **options)
    again, _ = fitted(2, monkeypatch, callbacks=[keras.callbacks.BackupAndRestore(tmp_path)], **options)
    assert sharing.times_traced() == traces
    for mine, theirs in zip(values(again), values(once), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_only_phases_whose_draws_have_members_in_front_are_divided():
    divided = {
        "cd": True,
        "wcd": True,
        "bcd": True,
        "pcd": True,
        "wpcd": True,
        "jpcd": False,
        "pt": False,
        "ptt": False,
        "exact": False,
    }
    for name, expected in divided.items():
        assert tf_wcd.negative_phases.get(name).members_apart is expected
    assert not tf_wcd.NegativePhase(PersistentChains(), JarzynskiWeights()).members_apart
    assert not tf_wcd.NegativePhase(Reconstructions(1, start=Reconstructions(0)), BalancedWeights()).members_apart
    assert not tf_wcd.NegativePhase(TemperedChains(), ModelWeights()).members_apart


@pytest.mark.parametrize(
    ("members", "cores", "expected"),
    [(15, 4, [15]), (16, 1, [16]), (17, 2, [8, 9]), (100, 2, [50, 50]), (30, 8, [10, 10, 10])],
)
def test_parts_are_of_eight_members_at_least(members, cores, expected, monkeypatch):
    monkeypatch.setattr(parts, "cores", lambda: cores)
    assert [count for _, count in parts.spans(members)] == expected
    assert [first for first, _ in parts.spans(members)] == np.cumsum([0, *expected[:-1]]).tolist()
