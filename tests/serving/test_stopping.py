"""What clients choose does not make a loaded model grow, and a failed run does not take a place for ever."""

import itertools

import numpy as np
import pytest

from serving import stopping
from serving.c_library import SessionError
from serving.quick_runs import QUICK, SLOW, QuickRuns
from serving.stopping import PREFIX, SLOTS, StoppableSession
from tests.serving.conftest import N_V


@pytest.fixture(scope="module")
def gibbs(library):
    """A session, and the names of the signature's feeds and outputs."""
    session = StoppableSession(library[0])
    signature = session.meta_graph.signature_def["gibbs"]
    values = {"visible": np.eye(N_V, dtype="float32"), "seed": np.arange(N_V), "steps": np.full(N_V, 2, "int32")}
    feeds = {info.name: values[alias] for alias, info in signature.inputs.items()}
    yield session, feeds, sorted(info.name for info in signature.outputs.values())
    session.close()


def test_subsets_of_the_outputs_do_not_grow_the_graph(gibbs, monkeypatch):
    session, feeds, names = gibbs
    monkeypatch.setattr(stopping, "SUBSETS", 2)
    everything = dict(zip(names, session.run(feeds, names), strict=True))
    run, fetched = session._session.run, set()
    monkeypatch.setattr(
        session._session, "run", lambda f, n, *rest, **kw: fetched.add(tuple(n)) or run(f, n, *rest, **kw)
    )
    chosen = [list(c) for size in range(1, len(names) + 1) for c in itertools.permutations(names, size)]
    assert len(chosen) > 3
    for some in chosen:
        for name, array in zip(some, session.run(feeds, some), strict=True):
            np.testing.assert_array_equal(array, everything[name])
    assert len(fetched - {()}) <= 2 + 1


def test_a_place_is_free_again_whatever_fails(gibbs, monkeypatch):
    session, feeds, names = gibbs
    run = session._session.run

    def failing(feeds, fetches, timeout, targets, **kwargs):
        raise SessionError(13, "the drain fails" if f"{PREFIX}/drain" in targets else "the run fails")

    for _ in range(SLOTS + 1):
        monkeypatch.setattr(session._session, "run", failing)
        with pytest.raises(SessionError, match="fails"):
            session.run(feeds, names)
        monkeypatch.setattr(session._session, "run", run)
    assert len(session.run(feeds, names, None)) == len(names)


def test_quick_runs_are_left_to_end(gibbs, monkeypatch):
    """The same numbers, without a place; and long ones can be stopped as before."""
    session, feeds, names = gibbs
    truth = session.run(feeds, names)
    session._quick.record(tuple(names), N_V, 2, 0.001)
    targets = []
    run = session._session.run
    monkeypatch.setattr(
        session._session, "run", lambda f, n, t=None, x=(), **kw: targets.append(x) or run(f, n, t, x, **kw)
    )
    for expected, array in zip(truth, session.run(feeds, names, steps=2), strict=True):
        np.testing.assert_array_equal(array, expected)
    assert targets == [()]
    session.run(feeds, names, steps=4)
    session.run(feeds, names)
    assert all(targets[1:])


def test_which_runs_are_quick():
    runs = QuickRuns()
    assert not runs.expected("a", 1, 0)
    runs.record("a", 5, 100, QUICK)
    runs.record("a", 3, 70, QUICK)
    assert runs.expected("a", 5, 127)
    for kind, rows, steps in (("b", 5, 100), ("a", 6, 100), ("a", 5, 128), ("a", 5, 50)):
        assert not runs.expected(kind, rows, steps)
    runs.record("a", 4, 100, SLOW)
    assert runs.expected("a", 5, 100)
    runs.record("a", 4, 100, SLOW + 0.01)
    assert runs.expected("a", 3, 100)
    assert not runs.expected("a", 4, 100)
