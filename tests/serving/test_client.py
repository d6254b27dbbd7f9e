"""The clients, and the commands on top of them."""

import asyncio
import os
import re
import subprocess
import sys
from concurrent import futures

import grpc
import keras
import numpy as np
import pytest
from matplotlib import image
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import serving
from serving import client as client_module
from serving import commands
from serving.client import AsyncSamplerClient, SamplerClient, row_seeds
from serving.commands import write_sheet
from serving.tensors import to_proto
from tests.serving.conftest import N_H, N_V, running
from tests.support.served import signatures, small_rbm
from tf_wcd.export.saved_model import read_facts
from tf_wcd.plots import picture_shape


@pytest.fixture
def client(connection):
    with SamplerClient(f"127.0.0.1:{connection.port}", "rbm", version=1) as client:
        yield client


def test_samples_are_those_of_the_model(client, library):
    truth = signatures(library[0])["sample"](seed=row_seeds(7, 50))["visible"]
    np.testing.assert_array_equal(client.sample(50, seed=7), truth)
    np.testing.assert_array_equal(client.sample(20, seed=7), truth[:20])
    assert not np.array_equal(client.sample(50), client.sample(50))
    assert serving.SamplerClient is SamplerClient


def test_chunks_stay_below_the_message_limit(client, monkeypatch):
    whole = client.sample(30, seed=3)
    monkeypatch.setattr(client_module, "CHUNK_BYTES", 4 * N_V * 8)
    chunks = list(client.stream(30, seed=3))
    assert [len(chunk) for chunk in chunks] == [8, 8, 8, 6]
    np.testing.assert_array_equal(np.concatenate(chunks), whole)
    assert client_module.CHUNK_BYTES < 4 * 2**20
    rows = [rows for _, rows in client.chunks(10**5, 784)]
    assert sum(rows) == 10**5
    assert max(rows) * 784 * 4 < 4 * 2**20


def test_every_signature(client):
    rbm = small_rbm("bernoulli", "bernoulli", N_V, N_H, seed=0)
    x = np.random.default_rng(0).integers(0, 2, (6, N_V)).astype("float32")
    np.testing.assert_allclose(client.free_energy(x), rbm.free_energy(x), rtol=1e-5)
    np.testing.assert_allclose(client.encode(x), rbm(x), atol=1e-5)
    assert client.log_prob(x).shape == (6,)
    np.testing.assert_array_equal(client.gibbs(x, steps=0), x)
    mask = np.array([1, 1, 1, 0, 0, 0, 0])
    filled = client.clamp(x, mask, steps=20, seed=1)
    np.testing.assert_array_equal(filled[:, :3], x[:, :3])
    assert not np.array_equal(filled[:, 3:], x[:, 3:])
    np.testing.assert_array_equal(client.gibbs(x, 5, seed=2), client.gibbs(x, 5, seed=2))
    seeds = row_seeds(2, len(x)).tolist()
    np.testing.assert_array_equal(client.gibbs(x, 5, seed=seeds), client.gibbs(x, 5, seed=2))
    assert client.status()[1] == "AVAILABLE"
    with pytest.raises(ValueError, match="Received: 0"):
        client.sample(0)
    with pytest.raises(ValueError, match="not both"):
        SamplerClient("x", version=1, label="a")


def test_asyncio(connection, client):
    async def ask():
        async with AsyncSamplerClient(f"127.0.0.1:{connection.port}", "rbm", label="stable") as other:
            samples = await asyncio.gather(*(other.sample(5, seed=i) for i in range(8)))
            x = samples[0]
            mask = np.ones(N_V)
            return (
                samples,
                await other.free_energy(x),
                await other.encode(x),
                await other.log_prob(x),
                await other.gibbs(x, 3, seed=1),
                await other.clamp(x, mask, 3, seed=1),
                await other.status(),
            )

    samples, energy, code, log_prob, moved, held, status = asyncio.run(ask())
    for seed, rows in enumerate(samples):
        np.testing.assert_array_equal(rows, client.sample(5, seed=seed))
    np.testing.assert_array_equal(energy, client.free_energy(samples[0]))
    np.testing.assert_array_equal(code, client.encode(samples[0]))
    np.testing.assert_array_equal(log_prob, client.log_prob(samples[0]))
    np.testing.assert_array_equal(moved, client.gibbs(samples[0], 3, seed=1))
    np.testing.assert_array_equal(held, samples[0])
    assert status[1] == "AVAILABLE"


class Wide(prediction_service_pb2_grpc.PredictionServiceServicer):
    """A service whose answers have 8 MB, twice of what gRPC's clients take unless told otherwise."""

    def Predict(self, request, context):  # noqa: N802 - gRPC's name
        response = predict_pb2.PredictResponse()
        response.outputs["hidden"].CopyFrom(to_proto(np.ones([1, 2**21], "float32")))
        return response


def test_answers_of_any_size_are_taken():
    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Wide(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()

    async def ask():
        async with AsyncSamplerClient(address, timeout=10) as client:
            return await client.encode(np.zeros([1, 2]))

    try:
        with SamplerClient(address, timeout=10) as client:
            assert client.encode(np.zeros([1, 2])).shape == (1, 2**21)
        assert asyncio.run(ask()).shape == (1, 2**21)
    finally:
        server.stop(None).wait()


class Unreliable:
    """A method that fails a few times before it answers."""

    def __init__(self, codes):
        self.codes, self.timeouts = list(codes), []

    def __call__(self, request, timeout):
        self.timeouts.append(timeout)
        if self.codes:
            error = grpc.RpcError()
            code = self.codes.pop(0)
            error.code = lambda: code
            raise error
        return "answer"


def test_retries_until_the_deadline():
    client = SamplerClient("127.0.0.1:1", timeout=30)
    codes = grpc.StatusCode
    method = Unreliable([codes.UNAVAILABLE, codes.RESOURCE_EXHAUSTED, codes.CANCELLED])
    assert client._call(method, None) == "answer"
    assert len(method.timeouts) == 4
    assert method.timeouts == sorted(method.timeouts, reverse=True)
    for code in (codes.INVALID_ARGUMENT, codes.DEADLINE_EXCEEDED, codes.NOT_FOUND):
        method = Unreliable([code])
        with pytest.raises(serving.SamplerError, match=f"The server answered {code.name}"):
            client._call(method, None)
        assert len(method.timeouts) == 1
    client.timeout = 0.5
    with pytest.raises(grpc.RpcError):
        client._call(Unreliable([codes.UNAVAILABLE] * 1000), None)
    with SamplerClient("127.0.0.1:1", timeout=1.0) as nobody, pytest.raises(grpc.RpcError) as error:
        nobody.sample(1)
    assert error.value.code() in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED)


def test_errors_are_one_sentence(connection, client):
    """What the server or the graph says, without the graph's names and without gRPC's report."""
    x = np.zeros([2, N_V], "float32")
    for call, sentence in (
        (lambda c: c.gibbs(x, steps=-1), r"steps must be from 0 to 1000000, the limit [a-z ]+\. Received: -1 -1"),
        (lambda c: c.encode(x - 1), r"visible must be in \[0, 1\], without NaN\."),
        (lambda c: c.predict("x", visible=x), 'Serving signature key "x" not found.'),
    ):
        with pytest.raises(serving.SamplerError) as error:
            call(client)
        assert re.fullmatch(sentence, str(error.value)), str(error.value)
        assert error.value.details() == str(error.value)
        assert error.value.__cause__ is None

    async def ask():
        async with AsyncSamplerClient(f"127.0.0.1:{connection.port}", "nobody") as other:
            await other.encode(x)

    with pytest.raises(serving.SamplerError, match=r"^Servable not found for request: Latest\(nobody\)$") as error:
        asyncio.run(ask())
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_row_seeds():
    seeds = np.concatenate([row_seeds(seed, 1000) for seed in (*range(-50, 50), 2**63, None)])
    assert seeds.dtype == np.int64
    assert len(np.unique(seeds)) == len(seeds)


def test_sheet(tmp_path):
    samples = np.random.default_rng(0).integers(0, 2, (10, 12)).astype("float32")
    write_sheet(samples, tmp_path / "sheet.png")
    picture = image.imread(tmp_path / "sheet.png")
    assert min(picture.shape[:2]) > 100
    assert picture_shape(12) == (4, 3)
    write_sheet(np.zeros([3, 5]), tmp_path / "flat.png")


def test_commands(connection, tmp_path):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}

    def wcd(*arguments):
        command = [sys.executable, "-m", "trainers.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)

    server = f"--server=127.0.0.1:{connection.port}"
    files = [f"--png={tmp_path}/sheet.png", f"--npy={tmp_path}/a.npy"]
    result = wcd("sample", server, "--model_name=rbm", "--count=9", "--seed=5", *files)
    assert result.returncode == 0, result.stderr
    assert f"9 samples of {N_V} units" in result.stdout
    assert image.imread(tmp_path / "sheet.png").ndim == 3
    with SamplerClient(f"127.0.0.1:{connection.port}", "rbm") as client:
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), client.sample(9, seed=5))
    with pytest.raises(ValueError, match="NOT_FOUND"):
        commands.sample(f"127.0.0.1:{connection.port}", "x", 9, seed=0, png="", npy="", timeout=10)

    small_rbm().save(tmp_path / "rbm.keras")
    result = wcd("export", f"--model={tmp_path}/rbm.keras", f"--base_path={tmp_path}/models/rbm", "--gibbs_steps=7")
    assert result.returncode == 0, result.stderr
    assert read_facts(tmp_path / "models" / "rbm" / "1")["gibbs_steps"] == 7


def test_any_model_with_an_export_method_is_published(tmp_path):
    """A Keras model that is none of ours has an `export` of its own, which is left to its own settings."""
    small_rbm().save(tmp_path / "rbm.keras")
    commands.export_model(str(tmp_path / "rbm.keras"), str(tmp_path / "rbm"))
    assert read_facts(tmp_path / "rbm" / "1")["gibbs_steps"] == 1000
    dense = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
    dense.save(tmp_path / "dense.keras")
    commands.export_model(str(tmp_path / "dense.keras"), str(tmp_path / "dense"))
    x = np.array([[1.0, 2.0, 3.0]], "float32")
    with running(tmp_path / "dense") as connection:
        status, answer = connection.http("POST", "/v1/models/rbm:predict", {"instances": x.tolist()})
        assert status == 200, answer
        assert connection.http("GET", "/page/models")[1][0]["facts"] == {}
        with pytest.raises(ValueError, match=r"no signature `sample`. Received: .*serving_default"):
            commands.sample(f"127.0.0.1:{connection.port}", "rbm", 9, seed=0, png="", npy="", timeout=10)
    np.testing.assert_allclose(answer["predictions"], dense(x), rtol=1e-5)
