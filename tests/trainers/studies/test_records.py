"""The records: images drawn anew at each epoch, runs that go on to the same bits, intervals that hold the truth."""

import dataclasses
from types import MappingProxyType

import keras
import numpy as np
import pytest

import tf_wcd
from tf_wcd import evaluation
from tf_wcd.evaluation.exact import free_energies
from trainers.report.record_section import records_section
from trainers.runs import deep_record_runs, record_runs
from trainers.runs.image_sets import Images
from trainers.runs.resumable import Plan
from trainers.settings.protocol import PAPER
from trainers.settings.record_protocol import FRESH, Annealing, RecordProtocol, RecordRun
from trainers.studies import records
from trainers.studies.work import Work

RUN = RecordRun("mnist", FRESH, "pcd", 0.05, 4, chains=20, hidden=4, batch_size=50)
BLACK_AND_WHITE = dataclasses.replace(RUN, data="ocr_letters", binarize="threshold")
DEEP = dataclasses.replace(RUN, hidden=9, learning_rate=0.01, epochs=2)
PROTOCOL = PAPER._replace(
    records=RecordProtocol(
        runs=MappingProxyType({run.data: run for run in (RUN, BLACK_AND_WHITE)}),
        deep_runs=MappingProxyType({"mnist": DEEP}),
        held_back=100,
        annealing=Annealing(budget=400, chains=50),
        trials_annealing=Annealing(budget=200, chains=20),
    )
)


def pictures(run, held_back):
    """Grey levels of nine pixels, or black and white ones."""
    rng = np.random.default_rng(0)
    levels = np.array([0, 40, 255, 128, 200, 90, 0, 255, 160])
    grey = np.where(rng.random((600, 9)) < 0.2, 255 - levels, levels).astype("uint8")
    black_and_white = record_runs.binarize(grey, "stochastic", rng=rng)
    train = grey[:300] if run.binarize == FRESH else black_and_white[:300]
    return Images(train, black_and_white[300:400][:held_back], black_and_white[400:])


def test_images_are_drawn_anew_at_each_epoch_and_the_same_when_asked_again():
    grey = pictures(RUN, 0).train
    first, second = (record_runs.images_of_epoch(RUN, grey, epoch, 3) for epoch in (0, 1))
    assert set(np.unique(first)) == {0.0, 1.0}
    assert (first != second).any()
    np.testing.assert_array_equal(first, record_runs.images_of_epoch(RUN, grey, 0, 3))
    assert (first != record_runs.images_of_epoch(RUN, grey, 0, 4)).any()
    drawn = np.mean([record_runs.images_of_epoch(RUN, grey, epoch, 5) for epoch in range(400)], axis=0)
    assert np.abs(drawn - grey / 255).max() < 5 * 0.5 / 20, "five standard errors"
    fixed = pictures(BLACK_AND_WHITE, 0).train
    assert record_runs.images_of_epoch(BLACK_AND_WHITE, fixed, 2, 3) is fixed


class _StopsAfter(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    grey = pictures(RUN, 0).train
    whole = record_runs.train(RUN, grey, 1, None, Plan(), verbose=False)
    plan = Plan(checkpoint_epochs=1)
    monkeypatch.setattr(record_runs, "ProgressLine", lambda *_: _StopsAfter(2))
    with pytest.raises(KeyboardInterrupt):
        record_runs.train(RUN, grey, 1, tmp_path, plan)
    monkeypatch.undo()
    resumed = record_runs.train(RUN, grey, 1, tmp_path, plan, verbose=False)
    np.testing.assert_array_equal(resumed.model.kernel.numpy(), whole.model.kernel.numpy())
    np.testing.assert_array_equal(resumed.model.visible_bias.numpy(), whole.model.visible_bias.numpy())


def test_the_study_keeps_what_it_found_and_runs_nothing_twice(tmp_path):
    work = Work(tmp_path, protocol=PROTOCOL, verbose=False)
    assert records.run(work, deadline=0.0, load=pictures) == 3
    assert records.run(work, load=pictures) == 0
    done = records.records(work.large).read()
    assert [record["settings"]["data"] for record in done] == ["mnist", "ocr_letters"]
    assert all(record["images"] == "test" and record["seed"] == 11 for record in done)
    assert records.run(work, load=None) == 0
    model = keras.models.load_model(work.large / "checkpoints" / "record-mnist.keras")
    exact = -np.mean(free_energies(model.machine().cast("float64"), pictures(RUN, 0).test.astype("float64")))
    exact -= evaluation.log_partition(model)
    assert done[0]["lower"] - 1e-3 <= exact <= done[0]["upper"] + 1e-3
    trial = records.run_one(RUN, work, trial=True, load=pictures)
    assert (trial["images"], trial["seed"]) == ("validation", 7)
    assert records.trials(work.large).read() == [trial]
    text = "\n".join(records_section(work.large))
    assert f"{done[0]['estimate']:.2f}" in text
    assert "drawn from its grey levels" in text
    assert "black and white" in text
    deep = records.deep_records(work.large).read()
    assert [(record["settings"], record["below"]) for record in deep] == [(DEEP.as_dict(), RUN.as_dict())]
    assert deep[0]["lower"] <= deep[0]["estimate"] <= deep[0]["upper"]
    assert f"{deep[0]['estimate']:.2f}" in text
    assert f"{RUN.hidden}-{DEEP.hidden}" in text
    dbn = keras.models.load_model(work.large / "checkpoints" / "record-mnist-dbn.keras")
    bound = evaluation.variational_bound(dbn, pictures(RUN, 0).test, seed=0)
    assert bound.mean == pytest.approx(deep[0]["estimate"], abs=0.2)


def test_a_second_layer_starts_where_the_bound_is_the_likelihood_of_the_first():
    images = pictures(RUN, 0)
    first = record_runs.train(RUN, images.train, 1, None, Plan(), verbose=False).model
    untrained = dataclasses.replace(DEEP, epochs=1, learning_rate=0.0)
    top = deep_record_runs.train_top(untrained, first, images.train, 1, None, Plan(), verbose=False).model
    dbn = tf_wcd.DBN([first, top])
    dbn.build((None, 9))
    bound = evaluation.variational_bound(dbn, images.test)
    likelihood = np.mean(evaluation.log_prob(first, images.test.astype("float32")))
    assert bound.mean == pytest.approx(likelihood, abs=1e-4)
    states = [deep_record_runs.states_above(first, images.test, 1, epoch) for epoch in (0, 1, 0)]
    np.testing.assert_array_equal(states[0], states[2])
    assert (states[0] != states[1]).any()
    np.testing.assert_allclose(np.mean(states[0], axis=0), np.mean(first(images.test), axis=0), atol=5 * 0.5 / 14)
