"""Data with a shape: images go in as they are, in every method, and are the same data as their rows."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd import evaluation, plots
from tf_wcd.images import are_images, as_images, as_rows, check_visible_shape, shape_of_rows

SHAPE = (2, 3)
ROWS = np.random.default_rng(0).integers(0, 2, (12, 6)).astype("float32")
IMAGES = ROWS.reshape(12, *SHAPE)
START = keras.initializers.RandomNormal(stddev=0.5, seed=1)


def made(shape=SHAPE, **options):
    rbm = tf_wcd.RBMLayer(3, visible_shape=shape, kernel_initializer=START, seed=0, **options)
    rbm.compile(keras.optimizers.SGD(0.1), jit_compile=False)
    return rbm


def built(shape=SHAPE, **options):
    rbm = made(shape, **options)
    rbm.build((None, 6))
    return rbm


def results(rbm, x, mask, start):
    """What every method makes of data, in a shape that it says."""
    target = np.full(12, 1 / 12)
    shaped = {
        "reconstruct": rbm.reconstruct(x),
        "impute": rbm.impute(np.where(np.arange(12).reshape(-1, *[1] * (x.ndim - 1)) % 3, x, np.nan)),
        "sample": rbm.sample(12, gibbs_steps=3, initial=x, seed=1),
        "clamp": rbm.sample(12, gibbs_steps=3, initial=x, clamp=mask, seed=1),
        "one start": rbm.sample(5, gibbs_steps=0, initial=x[4], seed=1),
    }
    flat = {
        "call": rbm(x),
        "predict": rbm.predict(x, verbose=0),
        "free_energy": rbm.free_energy(x),
        "energy": rbm.energy(x, np.zeros((12, 3))),
        "evaluate": np.array(rbm.evaluate(x, verbose=0, batch_size=12)),
        "test_on_batch": np.array(rbm.test_on_batch(x)),
        "log_prob": evaluation.log_prob(rbm, x),
        "kl": evaluation.kl_divergence(rbm, x, target),
        "log_likelihood": evaluation.log_likelihood(rbm, x).values,
        "pseudo": evaluation.pseudo_log_likelihood(rbm, x),
        "parzen": evaluation.parzen_log_likelihood(x, IMAGES, 0.3),
        "mixing": evaluation.mixing(rbm, x, gibbs_steps=20, seed=0).r_hat,
        "gradient": evaluation.gradient_error(rbm, x, ["cd"], repetitions=3, seed=0)["cd"].deviation,
        "annealed": evaluation.annealed_log_partition(rbm, data=x, base=start, temperatures=20, seed=0).estimate,
    }
    return shaped, flat


def test_images_and_rows_are_the_same_data_in_every_method():
    plain, shaped = built(None, missing="nan"), built(missing="nan")
    mask = np.array([1, 0, 0, 1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # annealing as short as this leaves log Z open
        expected, expected_flat = results(plain, ROWS, mask, ROWS.mean(0))
        found, found_flat = results(shaped, IMAGES, mask.reshape(SHAPE), IMAGES.mean(0))
        of_rows, of_rows_flat = results(shaped, ROWS, mask, ROWS.mean(0))
    for name, value in expected.items():
        assert found[name].shape == (len(value), *SHAPE), name
        np.testing.assert_array_equal(np.reshape(found[name], value.shape), value, err_msg=name)
        np.testing.assert_array_equal(np.reshape(of_rows[name], value.shape), value, err_msg=name)
    for name, value in expected_flat.items():
        np.testing.assert_array_equal(found_flat[name], value, err_msg=name)
        np.testing.assert_array_equal(of_rows_flat[name], value, err_msg=name)
    assert of_rows["reconstruct"].shape == ROWS.shape  # what was given comes back; samples are always images
    assert of_rows["sample"].shape == IMAGES.shape


def slices(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(4)


class Batches(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x

    @property
    def num_batches(self):
        return 3

    def __getitem__(self, index):
        return self.x[4 * index : 4 * index + 4]


KINDS = {
    "array": lambda x: x,
    "integers": lambda x: x.astype("uint8"),
    "list": lambda x: x.tolist(),
    "tensor": tf.constant,
    "data set": slices,
    "data set with weights": lambda x: slices(x, x[:, 0], np.ones(12)),
    "PyDataset": Batches,
    "generator": lambda x: (x[i : i + 4] for _ in range(2) for i in range(0, 12, 4)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_images_is_training_on_rows(kind):
    kernels = []
    options = {"batch_size": 4} if kind in ("array", "integers", "list", "tensor") else {}
    for shape, x in ((None, ROWS), (SHAPE, IMAGES)):
        rbm = made(shape, negative_phase="pcd", centered=True)
        rbm.start_at_means(x)
        rbm.fit(KINDS[kind](x), epochs=1 if kind == "generator" else 2, shuffle=False, verbose=0, **options)
        kernels.append(rbm.kernel.numpy())
    np.testing.assert_array_equal(*kernels)
    assert np.abs(kernels[0] - START((6, 3))).max() > 1e-3


def test_labels_conditions_and_ensembles():
    y, condition = np.arange(12) % 2, np.linspace(-1, 1, 12)[:, None]
    digits = made(classes=2)
    digits.fit(IMAGES, y, validation_data=(IMAGES, y), verbose=0)
    assert digits.label_log_prob(IMAGES).shape == (12, 2)
    assert digits.sample(4, labels=1, gibbs_steps=2).shape == (4, *SHAPE)
    assert digits.with_labels(IMAGES, y).shape == (12, 8)
    np.testing.assert_array_equal(digits.free_energy(IMAGES), digits.free_energy(ROWS))
    np.testing.assert_array_equal(digits(IMAGES), digits(ROWS))
    assert digits.reconstruct(IMAGES).shape == IMAGES.shape
    given = made(conditions=1, negative_phase="cd")
    given.fit([IMAGES, condition], verbose=0)
    given.start_at_means([IMAGES, condition])
    np.testing.assert_array_equal(given([IMAGES, condition]), given([ROWS, condition]))
    np.testing.assert_array_equal(given.predict([IMAGES, condition], verbose=0), given([ROWS, condition]))
    assert given.reconstruct([IMAGES, condition]).shape == IMAGES.shape
    assert given.sample(12, condition=condition, initial=IMAGES, gibbs_steps=2).shape == IMAGES.shape
    assert evaluation.log_prob(given, [IMAGES, condition]).shape == (12,)
    assert given.given([0.5]).sample(3, gibbs_steps=1).shape == (3, *SHAPE)
    several = tf_wcd.RBMEnsemble(3, count=2, visible_shape=SHAPE, seed=0)
    several.compile("sgd")
    several.fit(IMAGES, verbose=0)
    assert several(IMAGES).shape == (2, 12, 3)
    assert several.impute(np.full((1, *SHAPE), np.nan)).shape == (2, 1, *SHAPE)
    assert several.member(1).sample(2, gibbs_steps=1).shape == (2, *SHAPE)


def test_chains_swapped_with_moments_of_the_training_give_images():
    rbm = made(negative_phase="ptt", chains=4)
    rbm.fit(IMAGES, verbose=0)
    assert rbm.sample(3, gibbs_steps=2, method="ptt").shape == (3, *SHAPE)
    other = made(negative_phase="pcd", chains=12)
    other.start_chains(IMAGES)
    np.testing.assert_array_equal(other.chain_states()["visible"], ROWS)


def test_it_is_saved_and_stacked(tmp_path):
    rbm = built()
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.visible_shape == SHAPE
    np.testing.assert_array_equal(again(IMAGES), rbm(ROWS))
    network = keras.Sequential([keras.Input(SHAPE), rbm, keras.layers.Dense(2)])
    assert network.output_shape == (None, 2)
    network.compile("sgd", "mse")
    network.fit(IMAGES, np.zeros((12, 2)), verbose=0)
    network.save(tmp_path / "network.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "network.keras")(IMAGES), network(IMAGES))


def test_a_stack_takes_images(tmp_path):
    dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4, visible_shape=SHAPE, seed=0), tf_wcd.RBMLayer(3, classes=2, seed=1)])
    for model in (dbn, *dbn.rbms):
        model.compile("sgd")
    y = np.arange(12) % 2
    dbn.pretrain(IMAGES, y, verbose=0)
    dbn.fit(IMAGES, y, verbose=0)
    np.testing.assert_array_equal(dbn(IMAGES), dbn(ROWS))
    np.testing.assert_array_equal(dbn.predict(IMAGES, verbose=0), dbn.predict(ROWS, verbose=0))
    np.testing.assert_array_equal(dbn.label_log_prob(IMAGES), dbn.label_log_prob(ROWS))
    assert dbn.reconstruct(IMAGES).shape == IMAGES.shape
    assert dbn.reconstruct(ROWS).shape == ROWS.shape
    drawn = dbn.sample(3, gibbs_steps=2, initial=IMAGES[0], seed=0)
    np.testing.assert_array_equal(drawn, np.reshape(dbn.sample(3, gibbs_steps=2, initial=ROWS[0], seed=0), drawn.shape))
    assert drawn.shape == (3, *SHAPE)
    assert evaluation.variational_bound(dbn, IMAGES).mean == evaluation.variational_bound(dbn, ROWS).mean
    dbn.save(tmp_path / "dbn.keras")
    assert keras.models.load_model(tmp_path / "dbn.keras").sample(2, gibbs_steps=1).shape == (2, *SHAPE)
    for share in (False, True):
        assert dbn.classifier(2, share=share)(IMAGES).shape == (12, 2)


@pytest.mark.parametrize("share", [False, True])
def test_networks_of_a_stack_take_images(share, tmp_path):
    dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4, visible_shape=SHAPE, seed=0), tf_wcd.RBMLayer(3, seed=1)])
    dbn.build((None, *SHAPE))
    network = dbn.autoencoder(share=share)
    np.testing.assert_allclose(network(IMAGES), dbn.reconstruct(IMAGES), rtol=1e-5)
    network.compile("sgd", "mse")
    network.fit(IMAGES, IMAGES, verbose=0)
    network.save(tmp_path / "network.keras")
    again = keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_allclose(again(IMAGES), network(IMAGES), rtol=1e-6)
    if not share:
        assert network.get_layer("encoder")(IMAGES).shape == (12, 3)
    assert dbn.regressor(2, share=share)(IMAGES).shape == (12, 2)


def test_signatures_are_those_of_rows_and_may_start_from_images(tmp_path):
    starts = {"mean image": IMAGES.mean(0), "mean row": ROWS.mean(0), "images": IMAGES[3:4], "rows": ROWS[3:4]}
    drawn = {}
    for name, start in starts.items():
        built().export(tmp_path / name, gibbs_steps=1, start=start, warmup=False)
        served = tf.saved_model.load(str(tmp_path / name)).signatures
        drawn[name] = served["sample"](seed=tf.range(50, dtype=tf.int64))["visible"].numpy()
    np.testing.assert_array_equal(drawn["mean image"], drawn["mean row"])
    np.testing.assert_array_equal(drawn["images"], drawn["rows"])
    assert (drawn["images"] != drawn["mean image"]).any()
    np.testing.assert_allclose(served["encode"](visible=tf.constant(ROWS))["hidden"], built()(IMAGES), rtol=1e-5)


def test_pictures_know_the_shape(tmp_path):
    callback = tf_wcd.callbacks.RBMTensorBoard(tmp_path, train=IMAGES, validation=IMAGES, samples=4, gibbs_steps=2)
    rbm = made()
    others = [tf_wcd.callbacks.PseudoLikelihood(IMAGES), tf_wcd.callbacks.Parzen(IMAGES, num_samples=10)]
    rbm.fit(IMAGES, epochs=2, callbacks=[callback, *others], verbose=0)
    assert callback._shape() == SHAPE
    sheet = plots.image_sheet(rbm.sample(4, gibbs_steps=1, seed=0), columns=2).axes[0].images[0].get_array()
    assert sheet.shape == (2 * 3 + 1, 2 * 4 + 1)
    with pytest.raises(ValueError, match=r"height and width.*Received: shape=\(6,\) and images of the shape \(12, 6\)"):
        plots.image_sheet(ROWS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rbm: rbm.fit(IMAGES[:, :1], verbose=0), r"or \[examples, 2, 3\]. Received: shape \(12, 1, 3\)"),
        (lambda rbm: rbm.fit(ROWS[:, :5], verbose=0), r"6 columns.*Received: shape \(12, 5\)"),
        (lambda rbm: rbm(IMAGES.reshape(12, 3, 2)), r"\[None, 2, 3\] or \[None, 6\]. Received: shape \(12, 3, 2\)"),
        (lambda rbm: rbm(ROWS[:, :5]), r"\[None, 6\]. Received: shape \(12, 5\)"),
        (lambda rbm: rbm.free_energy(IMAGES[..., None]), r"Received: shape \(12, 2, 3, 1\)"),
        (lambda rbm: rbm.fit(slices(IMAGES[:, :1]), verbose=0), r"`visible_shape`. Received: \(4, 1, 3\)"),
        (lambda rbm: rbm.sample(2, initial=IMAGES[:3]), r"one row or 2. Received: shape \(3, 6\)"),
        (lambda rbm: made((2, 2)).build((None, 6)), r"visible_shape=\(2, 2\) are.* 4 columns. Received: 6 columns"),
        (lambda rbm: made((2, 0)), r"Received: visible_shape=\(2, 0\)"),
        (lambda rbm: made("28"), r"Received: visible_shape='28'"),
        (
            lambda rbm: tf_wcd.DBN([tf_wcd.RBMLayer(6), rbm]),
            r"for the first layer. Received: visible_shape=\(2, 3\) in layer 1",
        ),
        (
            lambda rbm: made(None).fit(IMAGES, verbose=0),
            r"x.reshape\(len\(x\), -1\), or make the layer with visible_shape=\(2, 3\). Received: shape \(12, 2, 3\)",
        ),
    ],
)
def test_what_does_not_fit_says_so(call, message):
    with pytest.raises(ValueError, match=message):
        call(built())


def test_shapes_that_are_known_in_part():
    assert are_images(tf.keras.Input((2, None)), SHAPE)
    assert not are_images(ROWS, (6,))
    assert not are_images(IMAGES, None)
    assert as_rows(IMAGES[0], SHAPE, one=True).shape == (1, 6)
    assert as_rows(IMAGES[0], SHAPE).shape == SHAPE
    assert as_images(tf.constant(ROWS)[None], SHAPE).shape == (1, 12, 2, 3)
    assert check_visible_shape([np.int64(2), 3]) == SHAPE
    assert shape_of_rows((None, 2, 3), SHAPE) == (None, 6)
    unknown = tf.function(lambda x: as_rows(x, SHAPE), input_signature=[tf.TensorSpec(None)])
    assert unknown(IMAGES).shape == IMAGES.shape
