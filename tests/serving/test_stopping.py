"""What clients choose does not make a loaded model grow, and a failed run does not take a place for ever."""

import itertools

import numpy as np
import pytest

from serving import stopping
from serving.c_library import SessionError
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
