"""Sequences: windows of the past, and frames that go on from it."""

import keras
import numpy as np
import pandas
import pytest
import scipy.sparse

import tf_wcd
from tf_wcd.sequences import generate, history


def test_history_has_every_frame_with_those_before_it():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(length, 3)) for length in (4, 7)]
    x, condition = history(sequences, order=2)
    assert x.shape == (2 + 5, 3)
    for row, (sequence, time) in enumerate([(0, 2), (0, 3), *((1, t) for t in range(2, 7))]):
        own = sequences[sequence]
        np.testing.assert_array_equal(x[row], own[time])
        np.testing.assert_array_equal(condition[row], np.concatenate([own[time - 2], own[time - 1]]))


def test_sequences_may_be_frames_and_sparse():
    letters = pandas.DataFrame({"letter": pandas.Categorical(list("abca"))})
    x, condition = history([letters, letters], order=1)
    one_hot = np.eye(3)[[0, 1, 2, 0]]
    np.testing.assert_array_equal(x, np.concatenate([one_hot[1:]] * 2))
    np.testing.assert_array_equal(condition, np.concatenate([one_hot[:-1]] * 2))
    np.testing.assert_array_equal(history([scipy.sparse.csr_matrix(one_hot)], order=1)[0], one_hot[1:])
    with pytest.raises(ValueError, match=r"same columns, \('letter=a', .*Received: \('other=a', .* in sequence 1"):
        history([letters, letters.rename(columns={"letter": "other"})], order=1)
    rbm = tf_wcd.RBMLayer(2, visible_type=tf_wcd.units.Potts(3), conditions=3, negative_phase="cd", seed=0)
    rbm.build((None, 3))
    np.testing.assert_array_equal(generate(rbm, letters, 4, 5, seed=0), generate(rbm, one_hot, 4, 5, seed=0))


def test_generated_frames_have_the_transitions_that_were_learned():
    """A Markov chain of order 2: the next bit is the exclusive or of the last two, with a chance of 0.9."""
    rng, bits = np.random.default_rng(1), [0, 1]
    for _ in range(6000):
        bits.append(int(bits[-1] ^ bits[-2] ^ (rng.random() > 0.9)))
    x, condition = history([np.array(bits, "float32")[:, None]], order=2)
    rbm = tf_wcd.RBMLayer(6, conditions=2, negative_phase="exact", centered=True, seed=0)
    rbm.compile(keras.optimizers.Adam(0.02))
    rbm.fit([x, condition], batch_size=500, steps_per_epoch=3000, verbose=0)
    for past in ([0, 0], [0, 1], [1, 0], [1, 1]):
        own = (condition == past).all(axis=1)
        learned = np.exp(tf_wcd.evaluation.log_prob(rbm.given(past), [[1.0]]))[0]
        assert abs(learned - x[own].mean()) < 0.03
    frames = generate(rbm, np.tile([[0.0], [1.0]], [200, 1, 1]), steps=60, gibbs_steps=20, seed=3)
    assert frames.shape == (200, 60, 1)
    late = frames[:, 10:, 0].astype(int)
    kept = (late[:, 2:] == late[:, 1:-1] ^ late[:, :-2]).mean()
    assert abs(kept - 0.9) < 4 * np.sqrt(0.09 / late[:, 2:].size) + 0.015
    again = generate(rbm, np.tile([[0.0], [1.0]], [200, 1, 1]), steps=3, gibbs_steps=20, seed=3)
    assert (again == frames[:, :3]).all()
    assert generate(rbm, [[5.0], [0.0], [1.0]], steps=4, seed=-1).shape == (4, 1)  # the last frames count


def test_bad_sequences_get_an_error():
    with pytest.raises(ValueError, match="at least one sequence"):
        history([], 2)
    with pytest.raises(ValueError, match=r"as \[sequence\]. Received: shape \(3,\) of sequence 0"):
        history(np.zeros([5, 3]), 2)
    with pytest.raises(ValueError, match=r"\[time, 3\].*shape \(5, 2\) of sequence 1"):
        history([np.zeros([5, 3]), np.zeros([5, 2])], 2)
    with pytest.raises(ValueError, match=r"more than 2 frames.*Received: 2 frames in sequence 1"):
        history([np.zeros([5, 3]), np.zeros([2, 3])], 2)
    rbm = tf_wcd.RBMLayer(2, conditions=6, negative_phase="cd", seed=0)
    rbm.build((None, 3))
    with pytest.raises(ValueError, match=r"at least 2 frames. Received: shape \(1, 3\)"):
        generate(rbm, np.zeros([1, 3]), 4)
    other = tf_wcd.RBMLayer(2, conditions=5, negative_phase="cd", seed=0)
    other.build((None, 3))
    with pytest.raises(ValueError, match=r"frames of 3 columns. Received: a layer with conditions=5"):
        generate(other, np.zeros([2, 3]), 4)
