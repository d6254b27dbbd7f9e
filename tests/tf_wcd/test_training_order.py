"""Which rows each update of `fit` has: blocks, streams, and the order of the data."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.tf_wcd.test_training import X, fitted, weights
from tf_wcd.training.inputs import arrays
from tf_wcd.training.inputs.arrays import index_blocks
from tf_wcd.training.inputs.datasets import stacked_dataset


@pytest.mark.parametrize("batch_size", [3, 10])
def test_every_epoch_begins_with_a_block(batch_size):
    def blocks(first_update, count):
        stream = index_blocks(10, batch_size, 4, 1, first_update, shuffle=True, endless=True, updates_per_epoch=6)
        return [next(stream).tolist() for _ in range(count)]

    whole = blocks(0, 6)
    assert {len(block) for block in whole} == {4}
    # Two of the second block are left out: they come again as the first of the next epoch.
    assert whole[1][2:] == whole[2][:2]
    assert blocks(6, 4) == whole[2:]
    updates = [update for i in range(3) for update in (whole[2 * i] + whole[2 * i + 1][:2])]
    one_by_one = index_blocks(10, batch_size, 1, 1, 0, shuffle=True, endless=True)
    assert updates == [next(one_by_one)[0].tolist() for _ in range(18)]


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize(("epoch", "calls"), [(7, [3, 3, 1]), (6, [3, 3]), (2, [2])])
def test_every_epoch_of_a_stream_begins_with_a_block(known_size, epoch, calls):
    batches = tf.data.Dataset.range(40).map(lambda i: tf.cast(tf.fill([2], i), tf.float32))
    batches = batches.batch(2, drop_remainder=known_size).map(lambda x: (x, 1 + x[:, 0]))
    blocks = list(stacked_dataset(batches, updates_per_block=3, batch_size=2, updates_per_epoch=epoch))
    most = min(3, epoch)
    assert {tuple(x.shape) for x, _, _ in blocks} == {(most, 2, 2)}  # compiled once
    counts = [int(updates) for _, _, updates in blocks]
    assert counts[: 2 * len(calls)] == 2 * calls
    seen = np.concatenate([x[:count, :, 0] for (x, _, _), count in zip(blocks, counts, strict=True)]).ravel()
    np.testing.assert_array_equal(seen, np.arange(40))
    for (x, w, _), count in zip(blocks, counts, strict=True):
        np.testing.assert_array_equal(w[:count], 1 + x[:count, :, 0])


def test_a_stream_of_batches_of_two_sizes():
    batches = tf.data.Dataset.range(7).map(lambda i: tf.cast(tf.fill([2], i), tf.float32)).batch(2).repeat()
    stream = stacked_dataset(
        batches.map(lambda x: (x, x[:, 0])), updates_per_block=3, batch_size=2, updates_per_epoch=5
    )
    # 2 2 2 | 1 2 || 2 2 1 | 2 2 || ...
    blocks = [(x.shape[1], x[: int(updates), :, 0].numpy().tolist()) for x, _, updates in stream.take(6)]
    assert blocks == [
        (2, [[0, 1], [2, 3], [4, 5]]),
        (2, [[0, 1]]),
        (1, [[6]]),
        (2, [[2, 3], [4, 5]]),
        (1, [[6]]),
        (2, [[0, 1], [2, 3]]),
    ]


@pytest.mark.xla
def test_a_resumed_stream_gives_the_same_bits():
    """Seven updates in an epoch, three in a call: the last update of a call is rounded in another way."""

    def fit(rbm, first_epoch, epochs):
        batches = tf.data.Dataset.from_tensor_slices(np.tile(X, (3, 1))).batch(5, drop_remainder=True)
        rbm.fit(batches.skip(7 * first_epoch), steps_per_epoch=7, epochs=epochs, verbose=0)
        return rbm

    def made():
        rbm = tf_wcd.RBMLayer(4, negative_phase="wpcd", centered=True, seed=1)
        rbm.compile(keras.optimizers.SGD(0.1, momentum=0.9), steps_per_execution=3)
        return rbm

    whole, parts = fit(made(), 0, 3), fit(fit(made(), 0, 1), 1, 2)
    np.testing.assert_array_equal(weights(whole), weights(parts))
    assert whole.history.history["loss"][1:] == parts.history.history["loss"]


def test_the_order_of_the_data():
    def rows(**kwargs):
        stream = index_blocks(
            **{
                "rows": 10,
                "batch_size": 3,
                "updates_per_block": 4,
                "seed": 1,
                "first_update": 0,
                "shuffle": True,
                **kwargs,
            }
        )
        return [next(stream) for _ in range(6)]

    passes = rows(endless=False)
    assert [block.shape for block in passes] == [(3, 3), (1, 1)] * 3
    for i in (0, 2, 4):
        assert sorted(np.concatenate([passes[i].ravel(), passes[i + 1].ravel()])) == list(range(10))
    assert passes[0].tolist() != passes[2].tolist()
    stream = np.concatenate([block.ravel() for block in rows(endless=True)])
    for i in range(7):
        assert sorted(stream[10 * i : 10 * i + 10]) == list(range(10))
    # A run that starts at a later update goes on with the same order.
    later = np.concatenate([block.ravel() for block in rows(endless=True, first_update=5)])
    np.testing.assert_array_equal(later[:57], stream[15:])
    np.testing.assert_array_equal(rows(endless=False, first_update=4)[0], passes[2])
    assert np.concatenate([b.ravel() for b in rows(endless=False, shuffle=False)])[:10].tolist() == list(range(10))
    assert rows(endless=True, batch_size=10)[0].shape == (4, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 8, "epochs": 3},
        {"batch_size": 8, "epochs": 3, "steps_per_epoch": 7},
        {"batch_size": 50, "epochs": 2, "sample_weight": np.arange(50.0)},
    ],
    ids=["pass", "endless", "whole"],
)
def test_data_too_large_for_the_device_come_in_blocks(arguments, monkeypatch):
    resident = fitted(layer={"negative_phase": "pcd"}, **arguments)
    monkeypatch.setattr(arrays, "MAX_RESIDENT_BYTES", 1000)
    monkeypatch.setattr(arrays, "MAX_BLOCK_BYTES", 1000)
    filled = []
    monkeypatch.setattr(arrays.ResidentData, "fill", lambda *_: filled.append(1))
    streamed = fitted(layer={"negative_phase": "pcd"}, **arguments)
    assert not filled
    assert int(streamed.optimizer.iterations) == int(resident.optimizer.iterations)
    np.testing.assert_allclose(weights(streamed), weights(resident), atol=2e-6)
