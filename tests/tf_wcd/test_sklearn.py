"""The estimators for scikit-learn."""

import pickle
import subprocess
import sys

import keras
import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import tf_wcd
from tf_wcd.sklearn import RBMClassifier, RBMTransformer

X = (np.random.default_rng(0).random((60, 6)) < [0.1, 0.3, 0.5, 0.5, 0.7, 0.9]).astype("float64")
X[:, 2] = X[:, 3]
Y = np.where(X[:, 2] > 0, "on", "off")


def small(**options):
    return RBMTransformer(**{"n_components": 4, "n_iter": 3, "random_state": 0, **options})


# All of scikit-learn's checks, without exceptions. Data out of range, which most of the checks use, give a warning.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [RBMTransformer(), RBMTransformer(visible_type="gaussian", learning_rate=0.001), RBMClassifier()]
)
def test_scikit_learn_finds_no_fault(estimator, check):
    check(estimator)


def test_parameters_and_methods_of_bernoulli_rbm_are_there():
    ours, theirs = RBMTransformer(), BernoulliRBM()
    defaults = theirs.get_params()
    assert {name: ours.get_params()[name] for name in defaults} == defaults
    public = [name for name in dir(theirs.fit(X)) if not name.startswith("_")]
    assert set(public) - {"h_samples_"} <= set(dir(ours.fit(X)))


def test_the_same_weights_give_the_same_numbers_as_bernoulli_rbm():
    theirs = BernoulliRBM(n_components=4, n_iter=20, random_state=0).fit(X)
    ours = small(n_iter=0).fit(X)
    assert ours.components_.shape == (4, 6)
    for name in ("components_", "intercept_hidden_", "intercept_visible_"):
        setattr(ours, name, getattr(theirs, name))
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-5)
    np.testing.assert_array_equal(ours.transform(scipy.sparse.csr_matrix(X)), ours.transform(X))
    # Theirs is an estimate from one unit, picked at random; its mean over many draws is ours.
    draws = []
    for seed in range(1000):
        theirs.set_params(random_state=seed)
        draws.append(theirs.score_samples(X[:5]))
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - ours.score_samples(X[:5])) < 4 * error + 1e-4)
    assert ours.score(X) == pytest.approx(ours.score_samples(X).mean())


def test_centred_models_start_at_the_means_of_what_the_units_can_have():
    dark = X * [1, 1, 0, 0, 1, 1]  # two columns are always off
    np.testing.assert_array_equal(small(n_iter=0).fit(dark).intercept_visible_, 0)
    started = small(n_iter=0, centered=True).fit(dark).intercept_visible_
    means = np.clip(dark.mean(axis=0), 0.01, 0.99)
    np.testing.assert_allclose(1 / (1 + np.exp(-started)), means, atol=1e-6)
    with pytest.warns(UserWarning, match="0/1|MinMaxScaler"):
        again = small(n_iter=0, centered=True).fit(np.r_[dark, np.full((1, 6), 7.0)])
    np.testing.assert_array_equal(again.intercept_visible_, started)


def test_gibbs_draws_from_the_conditionals():
    rbm = small(n_iter=0).fit(X)
    rbm.components_ = np.random.default_rng(1).normal(size=(4, 6))
    with pytest.raises(ValueError, match=r"the shape \(4, 6\). Received: shape \(6, 4\)"):
        rbm.components_ = np.zeros([6, 4])
    start = np.repeat(X[:1], 20000, axis=0)
    means = rbm.gibbs(start).mean(axis=0)
    hidden = tf_wcd.enumeration.all_states(rbm.rbm_.hidden_unit, 4).numpy()
    on = rbm.transform(X[:1])[0]
    weights = np.prod(np.where(hidden == 1, on, 1 - on), axis=1)
    exact = weights @ (1 / (1 + np.exp(-(hidden @ rbm.components_))))
    np.testing.assert_allclose(means, exact, atol=4 * 0.5 / np.sqrt(20000))
    assert np.any(rbm.gibbs(start) != rbm.gibbs(start))


def test_it_learns_as_bernoulli_rbm_does():
    scores = [
        kind(n_components=8, n_iter=100, learning_rate=0.05, random_state=0).fit(X)
        for kind in (RBMTransformer, BernoulliRBM)
    ]
    ours = scores[0].score(X)
    likelihood = small(n_components=8, n_iter=0).fit(X)
    for name in ("components_", "intercept_hidden_", "intercept_visible_"):
        setattr(likelihood, name, getattr(scores[1], name))
    assert ours > small(n_iter=0).fit(X).score(X) + 1
    assert ours == pytest.approx(likelihood.score(X), abs=0.3)


def test_random_states_are_scikit_learns():
    def weights(state):
        return small(random_state=state).fit(X).components_

    np.testing.assert_array_equal(weights(3), weights(3))
    shared = np.random.RandomState(3)
    first, second = weights(shared), weights(shared)
    assert np.any(first != second)
    np.testing.assert_array_equal(first, weights(np.random.RandomState(3)))
    np.random.seed(5)
    first = weights(None)
    assert np.any(first != weights(None))
    np.random.seed(5)
    np.testing.assert_array_equal(first, weights(None))


def test_partial_fit_is_one_update_and_goes_on():
    rbm = small(batch_size=7)
    assert rbm.partial_fit(X[:20]) is rbm
    assert int(rbm.rbm_.optimizer.iterations) == 1
    assert len(rbm.rbm_.chain_states()["hidden"]) == 7
    rbm.set_params(learning_rate=0.5).partial_fit(X[20:30])
    assert float(rbm.rbm_.optimizer.learning_rate) == 0.5
    with pytest.raises(ValueError, match="6 features"):
        rbm.partial_fit(X[:, :5])


def test_pipelines_searches_frames_and_sparse_data(capsys):
    digits, labels = load_digits(return_X_y=True)
    pipeline = make_pipeline(
        MinMaxScaler(),
        RBMTransformer(n_components=30, n_iter=30, random_state=0, verbose=1),
        LogisticRegression(max_iter=300),
    )
    search = GridSearchCV(pipeline, {"rbmtransformer__negative_phase": ["pcd", "cd"]}, cv=2)
    search.fit(digits[:600], labels[:600])
    assert search.best_score_ > 0.7
    assert "[RBMTransformer] Iteration 3, pseudo-likelihood = -" in capsys.readouterr().out
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    made = small().set_output(transform="pandas").fit_transform(frame)
    assert list(made.columns) == [f"rbmtransformer{i}" for i in range(4)]
    dense, sparse = (small().fit(x).components_ for x in (X, scipy.sparse.csr_matrix(X)))
    np.testing.assert_array_equal(dense, sparse)


@pytest.mark.slow
def test_a_search_in_two_processes_gives_what_one_gives():
    grid = {"learning_rate": [0.01, 0.1], "negative_phase": ["pcd", "wcd"]}
    one, two = (GridSearchCV(small(), grid, cv=2, n_jobs=jobs).fit(X).cv_results_ for jobs in (1, 2))
    np.testing.assert_allclose(one["mean_test_score"], two["mean_test_score"], rtol=1e-5)


def test_pickles_and_clones():
    phase = tf_wcd.negative_phases.PCD(gibbs_steps=2)
    rbm = small(negative_phase=phase, visible_type=tf_wcd.units.Bernoulli()).fit(X)
    again = pickle.loads(pickle.dumps(rbm))
    np.testing.assert_array_equal(again.transform(X), rbm.transform(X))
    np.testing.assert_array_equal(again.partial_fit(X).components_, rbm.partial_fit(X).components_)
    copy = clone(rbm)
    assert not hasattr(copy, "components_")
    with pytest.raises(NotFittedError):
        copy.transform(X)
    np.testing.assert_array_equal(copy.fit(X).components_, small(negative_phase=phase).fit(X).components_)


def test_other_units_and_samples():
    data = StandardScaler().fit_transform(np.random.default_rng(2).normal(size=(50, 3)))
    real = small(visible_type="gaussian", learning_rate=0.01).fit(data)
    assert not hasattr(real, "score_samples")
    assert real.sample(5, gibbs_steps=3, seed=0).shape == (5, 3)
    np.testing.assert_array_equal(real.sample(5, gibbs_steps=3, seed=0), real.sample(5, gibbs_steps=3, seed=0))
    spins = small(visible_type="spin", hidden_type="spin").fit(2 * X - 1)
    assert set(np.unique(spins.gibbs(2 * X - 1))) == {-1, 1}


def test_data_out_of_range_give_a_warning_and_bad_parameters_an_error():
    with pytest.warns(UserWarning, match=r"MinMaxScaler.*gaussian.*Received: \d+% of the values out of range"):
        small().fit(X - 0.5)
    for name, value in (("n_components", 0), ("learning_rate", -1.0), ("batch_size", 0.5), ("n_iter", -1)):
        with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}={value}"):
            small(**{name: value}).fit(X)


def test_a_classifier_with_names_as_labels():
    classifier = RBMClassifier(n_components=8, n_iter=30, random_state=0).fit(X, Y)
    assert classifier.classes_.tolist() == ["off", "on"]
    assert classifier.score(X, Y) == 1.0
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(probabilities), classifier.predict_log_proba(X))
    np.testing.assert_allclose(classifier.predict_log_proba(X), classifier.rbm_.label_log_prob(X), atol=1e-5)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    with pytest.raises(ValueError, match="at least two classes"):
        classifier.fit(X, Y[:1].repeat(len(X)))


def test_a_generative_classifier_draws_data_of_a_class():
    classifier = RBMClassifier(n_components=8, n_iter=200, learning_rate=0.1, objective="generative", random_state=0)
    drawn = classifier.fit(X, Y).sample(500, labels="on", gibbs_steps=50, seed=0)
    assert drawn[:, 2].mean() > 0.8
    with pytest.raises(ValueError, match=r"of \['off', 'on'\]. Received: \['between'\]"):
        classifier.sample(2, labels=["on", "between"])


def test_nobody_who_does_not_ask_imports_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
import tf_wcd
assert "tf_wcd.sklearn" not in sys.modules
try:
    tf_wcd.sklearn
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "pip install 'tf-wcd[sklearn]'" in done.stdout, done.stderr[-2000:]


def test_keras_wrapper_works_with_labels_and_says_what_to_use_without():
    labelled = tf_wcd.RBMLayer(4, classes=2, seed=0)
    labelled.compile("sgd")
    wrapper = keras.wrappers.SKLearnTransformer(labelled).fit(X, (Y == "on").astype(int), verbose=0)
    assert wrapper.transform(X).shape == (60, 4)
    plain = tf_wcd.RBMLayer(4, seed=0)
    plain.compile("sgd")
    with pytest.raises(ValueError, match=r"use `tf_wcd.sklearn.RBMTransformer`"):
        keras.wrappers.SKLearnTransformer(plain).fit(X, X[:, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf_wcd.RBMLayer(4, seed=0),
        lambda: tf_wcd.RBMLayer(4, classes=3, centered=True, seed=0),
        lambda: tf_wcd.RBMEnsemble(4, count=2, seed=0),
        lambda: tf_wcd.DBN([tf_wcd.RBMLayer(4, seed=0), tf_wcd.RBMLayer(3, seed=1)]),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_models_can_be_pickled_before_they_are_built(make, compiled):
    model = make()
    if compiled:
        model.compile(keras.optimizers.SGD(0.1))
    again = pickle.loads(pickle.dumps(model))
    assert not again.built
    assert again.get_config() == model.get_config()
