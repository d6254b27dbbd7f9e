"""Deep Belief Networks as Keras models: structure, what does not fit, saving, and the networks made of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tests.tf_wcd.test_layer import assert_same_variables

X = np.random.default_rng(0).integers(0, 2, (40, 5)).astype("float32")
Y = X[:, 0].astype("int32") + X[:, 1].astype("int32")


def built(units, n_v, **kwargs):
    rbm = tf_wcd.RBMLayer(units, **kwargs)
    rbm.build((None, n_v))
    return rbm


def test_call_and_shapes():
    dbn = de.make_dbn((5, 4, 3))
    p, q = (bf.parameters_of(rbm) for rbm in dbn.rbms)
    expected = bf.hidden_mean(q, bf.hidden_mean(p, X, "bernoulli"), "bernoulli")
    np.testing.assert_allclose(dbn(X), expected, rtol=1e-5)
    assert dbn.compute_output_shape((None, 5)) == (None, 3)
    plain = keras.Sequential([*de.make_dbn((5, 4, 3)).rbms, keras.layers.Dense(2)])
    assert plain(X).shape == (40, 2)
    assert keras.Sequential([keras.Input((5,)), dbn, keras.layers.Dense(2)])(X).shape == (40, 2)


def test_summary_shows_the_layers(capsys):
    de.make_dbn((5, 4, 3)).summary()
    shown = capsys.readouterr().out
    assert "rbm_0" in shown
    assert "rbm_1" in shown
    assert "48" in shown.replace(",", "")  # parameters: 5 x 4 + 5 + 4 and 4 x 3 + 4 + 3, less a count of epochs


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], r"at least one RBMLayer. Received: layers=\[\]"),
        ([tf_wcd.RBMLayer(3), keras.layers.Dense(2)], r"must be an RBMLayer. Received: <Dense.*as layer 1"),
        (
            [tf_wcd.RBMLayer(3, name="a"), tf_wcd.RBMLayer(2, visible_type="spin", name="b")],
            r"layer 1, 'b', does not fit on layer 0, 'a'.*"
            r"Received: 'bernoulli' hidden units in 'a' and 'spin' visible units in 'b'",
        ),
        (
            [tf_wcd.RBMLayer(3, hidden_type="spin", name="a"), tf_wcd.RBMLayer(2, name="b")],
            r"'b', does not fit on layer 0, 'a'.*Received: 'spin' hidden.*'bernoulli' visible",
        ),
        (
            [tf_wcd.RBMLayer(3, name="a"), tf_wcd.RBMLayer(2, visible_type="gaussian", name="b")],
            r"'b', does not fit on layer 0, 'a'.*'gaussian' visible units in 'b'",
        ),
        (
            [tf_wcd.RBMLayer(3, name="a"), built(2, 4, name="b")],
            r"'b', does not fit on layer 0, 'a'. Received: 3 hidden units in 'a', and 4 visible units in 'b'",
        ),
        (
            [tf_wcd.RBMLayer(3, name="a"), built(2, 4, visible_type=tf_wcd.units.Labelled("bernoulli", 2), name="b")],
            r"Received: 3 hidden units in 'a' and 2 labels, and 4 visible units in 'b'",
        ),
        (
            [tf_wcd.RBMLayer(3, visible_type=tf_wcd.units.Labelled("spin", 2), name="a"), tf_wcd.RBMLayer(2, name="b")],
            r"top layer only, 'b'. Received: labelled visible units in layer 0, 'a'",
        ),
        ([tf_wcd.RBMLayer(3), tf_wcd.RBMEnsemble(2, count=2)], r"must be an RBMLayer. Received: <RBMEnsemble"),
    ],
)
def test_layers_that_do_not_fit_are_named(layers, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.DBN(layers)


def test_other_bad_structures():
    rbm = tf_wcd.RBMLayer(3, name="a")
    with pytest.raises(ValueError, match=r"only once. Received: layers named \['a', 'a'\]"):
        tf_wcd.DBN([rbm, rbm])
    dbn = tf_wcd.DBN([built(3, 5, name="a")])
    with pytest.raises(ValueError, match=r"'a' has 5 visible units. Received: 4 columns"):
        dbn.build((None, 4))
    with pytest.raises(ValueError, match=r"shape \[batch, visible units\]. Received: \(None, 4, 2\)"):
        tf_wcd.DBN([tf_wcd.RBMLayer(3)]).build((None, 4, 2))
    for call in (lambda d: d.sample(2), lambda d: d.classifier(2), lambda d: d.machines()):
        with pytest.raises(ValueError, match="does not know its number of visible units"):
            call(tf_wcd.DBN([tf_wcd.RBMLayer(3)]))
    dbn = de.make_dbn((5, 4, 3))
    with pytest.raises(ValueError, match=r"Received: 3 'bernoulli' and 5 'bernoulli' units"):
        dbn.initialize_transposed(1)
    with pytest.raises(ValueError, match=r"1 .. 1. Received: layer=0"):
        dbn.initialize_transposed(0)


def test_save_and_load(tmp_path):
    dbn = de.make_dbn((5, 4, 3), labels=3, negative_phase="pcd")
    for rbm in dbn.rbms:
        rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False)
    dbn.pretrain(X, Y, epochs=(1, 2), batch_size=20, verbose=0)
    dbn.compile(keras.optimizers.SGD(0.01, momentum=0.9), jit_compile=False)
    dbn.fit(X, Y, batch_size=20, verbose=0)
    dbn.save(tmp_path / "dbn.keras")
    loaded = keras.models.load_model(tmp_path / "dbn.keras")
    assert loaded.get_config() == dbn.get_config()
    assert loaded.untied
    assert [loaded.epochs_done(i) for i in range(2)] == [1, 2]
    assert_same_variables(dbn, loaded)
    np.testing.assert_array_equal(dbn.sample(9, gibbs_steps=5, seed=1), loaded.sample(9, gibbs_steps=5, seed=1))
    for model in (dbn, loaded):  # the optimizer, the chains and the counters go on too
        model.fit(X, Y, batch_size=20, shuffle=False, verbose=0)
    assert_same_variables(dbn, loaded)
    clone = tf_wcd.DBN.from_config(dbn.get_config())
    assert [rbm.name for rbm in clone.rbms] == ["rbm_0", "rbm_1"]


def test_weights_file(tmp_path):
    dbn, other = de.make_dbn((5, 4, 3)), de.make_dbn((5, 4, 3), seed=7)
    dbn.save_weights(tmp_path / "dbn.weights.h5")
    other.load_weights(tmp_path / "dbn.weights.h5")
    np.testing.assert_array_equal(other.rbms[1].kernel, dbn.rbms[1].kernel)


# Networks for back-propagation


@pytest.mark.parametrize(("unit", "share"), [("bernoulli", False), ("spin", True)])
def test_classifier_starts_from_the_stack(unit, share, tmp_path):
    dbn = de.make_dbn((5, 4, 3), unit)
    before = dbn.rbms[0].kernel.numpy()
    model = dbn.classifier(3, share=share)
    logits = model.layers[-1]
    np.testing.assert_allclose(
        model(X), dbn(X).numpy() @ logits.kernel.numpy() + logits.bias.numpy(), rtol=1e-4, atol=1e-5
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(X, Y, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert (dbn.rbms[0].kernel.numpy() != before).any() == share
    model.save(tmp_path / "classifier.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "classifier.keras")(X), model(X), rtol=1e-5)
    assert any(isinstance(layer, keras.layers.Dropout) for layer in dbn.classifier(3, dropout=0.5).layers)


@pytest.mark.parametrize("share", [False, True])
def test_regressor_starts_from_the_stack(share, tmp_path):
    dbn = de.make_dbn((5, 4, 3))
    before = dbn.rbms[0].kernel.numpy()
    model = dbn.regressor(2, share=share)
    head = model.layers[-1]
    np.testing.assert_allclose(model(X), dbn(X).numpy() @ head.kernel.numpy() + head.bias.numpy(), rtol=1e-4, atol=1e-5)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    targets = np.stack([X.sum(1), X[:, 0] - X[:, 1]], axis=1)
    losses = model.fit(X, targets, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert (dbn.rbms[0].kernel.numpy() != before).any() == share
    model.save(tmp_path / "regressor.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "regressor.keras")(X), model(X), rtol=1e-5)


def test_bad_arguments_of_a_regressor():
    with pytest.raises(ValueError, match=r"`num_targets` must be .* Received: num_targets=0"):
        de.make_dbn((5, 4, 3)).regressor(0)
    labelled = de.make_dbn((5, 4, 3), labels=3)
    with pytest.raises(ValueError, match="no place for labels"):
        labelled.regressor(share=True)
    assert labelled.regressor().layers[-2].kernel.shape == (4, 3)  # a copy leaves the labels' weights out


def test_classifier_of_a_labelled_stack(tmp_path):
    dbn = de.make_dbn((5, 4, 3), labels=3)
    shared = dbn.classifier(3, share=True)
    np.testing.assert_allclose(
        tf.nn.log_softmax(shared(X)), dbn.label_log_prob(X), rtol=1e-4, atol=1e-5
    )  # its logits are the free energies
    before = dbn.rbms[1].kernel.numpy()
    shared.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    shared.fit(X, Y, verbose=0)
    assert (dbn.rbms[1].kernel.numpy() != before).all()
    np.testing.assert_allclose(tf.nn.log_softmax(shared(X)), dbn.label_log_prob(X), rtol=1e-4, atol=1e-5)
    shared.save(tmp_path / "shared.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "shared.keras")(X), shared(X), rtol=1e-5)
    # A copy leaves the labels' weights out.
    copied = dbn.classifier(7)
    assert copied.layers[-2].kernel.shape == (4, 3)
    for num_classes, message in ((4, "has 3 labels. Received: num_classes=4"), (1, "Received: num_classes=1")):
        with pytest.raises(ValueError, match=message):
            dbn.classifier(num_classes, share=True)
    with pytest.raises(ValueError, match=r"Received: dropout=1"):
        dbn.classifier(3, dropout=1)


@pytest.mark.parametrize(
    ("visible", "share"), [("bernoulli", False), ("bernoulli", True), ("spin", False), ("gaussian", True)]
)
def test_autoencoder_unrolls_the_stack(visible, share, tmp_path):
    unit = tf_wcd.units.Gaussian(variance=2.0) if visible == "gaussian" else visible
    hidden = "bernoulli" if visible == "gaussian" else visible
    rbms = [
        bf.make_rbm(bf.random_parameters(5, 4), unit, hidden, name="a"),
        bf.make_rbm(bf.random_parameters(4, 3, seed=1), hidden, hidden, name="b"),
    ]
    dbn = tf_wcd.DBN(rbms)
    dbn.build((None, 5))
    # By hand.
    p, q = (bf.parameters_of(rbm) for rbm in rbms)
    code = bf.hidden_mean(q, bf.hidden_mean(p, X, hidden), hidden)
    mean = {"bernoulli": lambda f: 1 / (1 + np.exp(-f)), "spin": np.tanh, "gaussian": lambda f: 2 * f}
    expected = mean[visible](mean[hidden](code @ q.W.T + q.b) @ p.W.T + p.b)
    np.testing.assert_allclose(dbn.reconstruct(X), expected, rtol=1e-4, atol=1e-5)
    model = dbn.autoencoder(share=share)
    np.testing.assert_allclose(model(X), expected, rtol=1e-4, atol=1e-5)
    before = rbms[0].kernel.numpy()
    model.compile(keras.optimizers.Adam(0.01), "mse")
    losses = model.fit(X, X, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert (rbms[0].kernel.numpy() != before).any() == share
    model.save(tmp_path / "autoencoder.keras")
    np.testing.assert_allclose(
        keras.models.load_model(tmp_path / "autoencoder.keras")(X), model(X), rtol=1e-4, atol=1e-6
    )
    if not share:
        np.testing.assert_allclose(dbn.autoencoder().get_layer("encoder")(X), dbn(X), rtol=1e-4)


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
def test_a_linear_code_is_the_field_of_the_top_units(unit):
    dbn = de.make_dbn((5, 4, 3), unit)
    p, q = (bf.parameters_of(rbm) for rbm in dbn.rbms)
    model = dbn.autoencoder(linear_code=True)
    code = bf.hidden_mean(p, X, unit) @ q.W + q.c
    np.testing.assert_allclose(model.get_layer("encoder")(X), code, rtol=1e-4, atol=1e-5)
    # Near zero the decoder takes the field for what the bounded code would be, and no further away does.
    small = 0.05 * np.eye(3, dtype="float32")
    bounded = 1 / (1 + np.exp(-small)) if unit == "bernoulli" else np.tanh(small)
    usual = dbn.autoencoder().get_layer("decoder")
    np.testing.assert_allclose(model.get_layer("decoder")(small), usual(bounded), atol=1e-4)
    assert np.abs(model.get_layer("decoder")(100 * small) - usual(bounded)).max() > 0.01
    with pytest.raises(ValueError, match="Received: share=True and linear_code=True"):
        dbn.autoencoder(share=True, linear_code=True)


def test_no_autoencoder_of_labels():
    with pytest.raises(ValueError, match="no place for labels"):
        de.make_dbn((5, 4, 3), labels=2).autoencoder()
