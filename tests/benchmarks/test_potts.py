"""The benchmark on letters: its truth by enumeration, and that either library learns some of it."""

import itertools

import numpy as np
import pytest

from benchmarks import potts


def test_the_chain_is_what_its_fields_and_interactions_say(monkeypatch):
    monkeypatch.setattr(potts, "SITES", 4)
    monkeypatch.setattr(potts, "LETTERS", 3)
    chain = potts.PottsChain(1)
    states = np.array(list(itertools.product(range(3), repeat=4)))
    weights = chain.fields[np.arange(4), states].sum(axis=1)
    weights += sum(chain.couplings[i, states[:, i], states[:, i + 1]] for i in range(3))
    p = np.exp(weights - np.logaddexp.reduce(weights))
    x = potts.one_hot(states)
    exact = chain.frequencies()
    np.testing.assert_allclose(exact.one, (p @ x).reshape(4, 3), atol=1e-7)
    two = ((x * p[:, None]).T @ x).reshape(4, 3, 4, 3).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(exact.two, two, atol=1e-7)
    drawn = potts.frequencies_of(chain.sample(40_000, np.random.default_rng(0)))
    np.testing.assert_allclose(drawn.two, two, atol=5 * 0.5 / 200)
    found = potts.correlations(drawn, exact)
    assert min(found.values()) > 0.99
    assert potts.correlations(exact, exact) == {"one_site": 1.0, "two_sites": 1.0, "connected": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", potts.METHODS)
def test_either_library_learns(name, monkeypatch):
    if name == "rbms":
        pytest.importorskip("rbms")
    monkeypatch.setattr(potts, "SAMPLES", 2000)
    monkeypatch.setattr(potts, "GIBBS_STEPS", 100)
    found = potts.run(name, 0.1, 5.0, 3)
    assert found["one_site"] > 0.8
    assert found["updates"] >= 500
