"""Models with labels through a server: clients, the command, and rows that do not depend on the batch."""

import asyncio
import inspect
import pathlib

import numpy as np
import pytest

import tf_wcd
from serving import commands
from serving.client import AsyncSamplerClient, SamplerClient, row_seeds
from tests.serving.conftest import put, running
from tests.support.served import signatures
from tests.tf_wcd.test_export_labels import labelled_rbm
from tf_wcd.export import SIGNATURES, signature_table
from trainers.studies import saved_model


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A server with a labelled model, and the signatures of the same export in this process."""
    folder = tmp_path_factory.mktemp("labelled")
    rbm = labelled_rbm("bernoulli")
    rbm.export(folder / "export", gibbs_steps=5)
    put(folder / "export", folder / "rbm", 1)
    with running(folder / "rbm", enable_batching=True, enable_model_warmup=True) as connection:
        yield connection, signatures(folder / "export"), rbm


def test_clients_draw_and_recognise_classes(labelled):
    connection, local, rbm = labelled
    address = f"127.0.0.1:{connection.port}"
    labels = np.array([4, 0, 2, 2, 1, 3])
    truth = local["conditional"](label=labels, seed=row_seeds(7, 6))["visible"]
    with SamplerClient(address, "rbm", max_rows=2) as client:
        np.testing.assert_array_equal(client.conditional(labels, seed=7), truth)
        same = local["conditional"](label=np.full(5, 3), seed=row_seeds(7, 5))["visible"]
        np.testing.assert_array_equal(client.conditional(3, 5, seed=7), same)
        found = client.classify(truth)
        np.testing.assert_array_equal(found.log_prob, local["classify"](visible=truth)["log_prob"])
        np.testing.assert_array_equal(found.label, np.argmax(rbm.label_log_prob(truth), axis=1))

    async def ask():
        async with AsyncSamplerClient(address, "rbm") as client:
            # Many at once, so that the server batches them.
            rows = [client.conditional(int(label), 1, seed=n) for n, label in enumerate(labels)]
            return await asyncio.gather(*rows, client.classify(truth))

    *rows, found = asyncio.run(ask())
    for n, label in enumerate(labels):
        alone = local["conditional"](label=np.array([label]), seed=row_seeds(n, 1))["visible"]
        np.testing.assert_array_equal(rows[n], alone)
    assert found.log_prob.shape == (6, 5)


def test_the_command_draws_a_class(labelled, tmp_path, capsys):
    connection, local, rbm = labelled
    address = f"127.0.0.1:{connection.port}"
    samples = commands.sample(address, "rbm", 4, 1, "", str(tmp_path / "x.npy"), 10, label=2)
    np.testing.assert_array_equal(samples, local["conditional"](label=np.full(4, 2), seed=row_seeds(1, 4))["visible"])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), samples)
    with pytest.raises(ValueError, match="label must be from 0 to 4"):
        commands.sample(address, "rbm", 4, 1, "", "", 10, label=5)
    rbm.save(tmp_path / "rbm.keras")
    here = saved_model.sample(str(tmp_path / "rbm.keras"), 3, 5, seed=1, label=2)
    np.testing.assert_array_equal(here, rbm.sample(3, 5, seed=1, labels=2))


def test_a_model_without_labels_says_so(connection):
    with pytest.raises(ValueError, match=r"FAILED_PRECONDITION.*--label is for models with labels"):
        commands.sample(f"127.0.0.1:{connection.port}", "rbm", 4, 1, "", "", 10, label=2)


def test_the_table_of_signatures_is_what_clients_and_pages_have():
    for client in (SamplerClient, AsyncSamplerClient):
        for row in SIGNATURES:
            names = set(inspect.signature(getattr(client, row.name)).parameters)
            assert {a.name for a in row.inputs} <= names | {"seed"}, row.name
    root = pathlib.Path(tf_wcd.__file__).parents[1]
    assert signature_table() in (root / "docs" / "serving.md").read_text()
    for row in SIGNATURES:
        assert f"`{row.name}`" in (tf_wcd.RBMLayer.export.__doc__ or "")
