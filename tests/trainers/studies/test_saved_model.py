"""A saved model, evaluated on images."""

import numpy as np
import pytest

import tf_wcd
from trainers.runs.image_sets import Images
from trainers.studies import saved_model


@pytest.mark.parametrize(("hidden", "method"), [(5, "exact"), (30, "annealed")])
def test_evaluate_on_images_is_what_the_library_says(capsys, tmp_path, hidden, method):
    x = (np.random.default_rng(0).random((40, 128)) < 0.3).astype("float32")
    rbm = tf_wcd.RBMLayer(hidden, seed=0, kernel_initializer="glorot_uniform")
    rbm.build((None, 128))
    path = tmp_path / "rbm.keras"
    rbm.save(path)
    found = saved_model.evaluate(
        str(path),
        "ocr_letters",
        chains=10,
        temperatures=20,
        seed=1,
        mixing=method == "exact",
        load=lambda _: Images(x[:20], x[:0], x[20:]),
    )
    out = capsys.readouterr().out
    options = {"data": x[:20], "chains": 10, "temperatures": 20, "seed": 1} if method == "annealed" else {}
    likelihood = tf_wcd.evaluation.log_likelihood(rbm, x[20:], **options)
    assert found["binarize"] == "threshold"
    assert found["method"] == likelihood.method == method
    assert found["log_likelihood"] == pytest.approx(likelihood.mean, rel=1e-6)
    assert found["lower"] <= found["upper"] + 1.0
    assert (
        f"Log-likelihood of the test images of ocr_letters (binarize='threshold'): {likelihood.mean:.2f} nats, {method}"
        in out
    )
    assert ("Forward and reverse annealing" in out) is (method == "annealed")
    assert ("Mixed in 1000 steps: R-hat" in out) is ("mixing" in found) is (method == "exact")
    if "mixing" in found:
        mixing = tf_wcd.evaluation.mixing(rbm, x[:20], seed=1)
        assert found["mixing"]["mixed"] is mixing.mixed is True
        assert found["mixing"]["r_hat"] == pytest.approx(mixing.r_hat)
