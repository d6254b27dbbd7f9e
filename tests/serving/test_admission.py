"""Requests that ask for far more than they send: refused before any memory is taken for them."""

import contextlib
import resource
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import model_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.admission import Admission, ByteBudget, WorkBudget
from serving.client import MAX_CHUNK
from serving.core import ServerCore
from serving.errors import ServingError
from serving.inputs import SAMPLE_ROWS, read_inputs
from serving.manager import ModelManager
from serving.message_sizes import WEIGHT
from serving.reception import Reception
from serving.rest import WRITERS, RestServer
from serving.tensors import to_array
from tests.serving.conftest import N_V, eventually, running
from tests.support.processes import ENVIRONMENT, serving_process

ONE = {"visible": np.zeros([1, N_V], "float32"), "mask": np.zeros([1, N_V], "float32"), "seed": np.zeros(1, "int64")}
ONE["steps"] = np.ones(1, "int32")


def short(request, key, *shape):
    """Declares another shape for an input; its one value stands for all."""
    proto = request.inputs[key]
    proto.CopyFrom(tensor_pb2.TensorProto(dtype=proto.dtype))
    {1: proto.float_val, 3: proto.int_val, 9: proto.int64_val}[proto.dtype].append(1)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)


def refusal(connection, request):
    with pytest.raises(grpc.RpcError) as error:
        connection.prediction.Predict(request, timeout=30)
    return error.value.code().name, error.value.details()


@pytest.mark.parametrize(
    ("key", "shape", "text"),
    [
        ("visible", [10**6, N_V], "a batch may have at most 10000 rows"),
        ("visible", [1, 10**7], f"visible must have the shape [rows, {N_V}]. Received: [1, 10000000]"),
        ("mask", [10**6, N_V], "mask must have as many rows as visible. Received: 1000000 and 1"),
        ("seed", [10**7], "seed must have one entry for each row of visible. Received: 10000000 and 1"),
        ("steps", [10**7, 1], "steps must have the shape [rows]. Received: [10000000, 1]"),
    ],
)
def test_declared_shapes_are_checked_before_they_are_expanded(connection, monkeypatch, key, shape, text):
    def expanded(proto, name):
        raise AssertionError(f"{name} was expanded")

    request = connection.request("clamp", **ONE)
    short(request, key, *shape)
    assert len(request.SerializeToString()) < 250
    monkeypatch.setattr("serving.inputs.to_array", expanded)
    code, details = refusal(connection, request)
    assert code == "INVALID_ARGUMENT"
    assert text in details


def test_one_value_may_stand_for_all_within_the_limits(connection):
    request = connection.request("gibbs", **{key: ONE[key] for key in ("visible", "seed", "steps")})
    short(request, "visible", 3, N_V)
    short(request, "seed", 3)
    short(request, "steps", 3)
    response = connection.prediction.Predict(request, timeout=30)
    one = connection.predict(
        "gibbs", visible=np.ones([1, N_V], "float32"), seed=np.ones(1, "int64"), steps=ONE["steps"]
    )
    answer = to_array(response.outputs["probability"], "probability")
    np.testing.assert_array_equal(answer, np.repeat(one["probability"], 3, axis=0))


def test_rows_times_steps(base):
    with running(base, rest_api_port=0, max_row_steps=1000) as connection:
        work = {"visible": np.zeros([10, N_V], "float32"), "seed": np.arange(10)}
        connection.predict("gibbs", **work, steps=np.full(10, 100, "int32"))
        steps = np.array([101, *[1] * 9], "int32")  # the others wait for the longest
        code, details = refusal(connection, connection.request("gibbs", **work, steps=steps))
        assert code == "INVALID_ARGUMENT"
        assert "rows times steps may be at most 1000" in details
        assert "Received: 10 rows of up to 101 steps" in details


def test_bytes_in_flight(base):
    with running(base, rest_api_port=0, max_bytes_in_flight=10_000) as connection:
        connection.predict("free_energy", visible=np.zeros([100, N_V], "float32"))
        code, details = refusal(connection, connection.request("free_energy", visible=np.zeros([400, N_V], "float32")))
        assert code == "RESOURCE_EXHAUSTED"
        assert "limit of 10000" in details
        eventually(lambda: connection.server.core.bytes_in_flight.held == 0)


def test_answers_count_as_arrays_and_as_messages(base):
    """They are both for a moment, for all who are answered at the same time."""
    with running(base, rest_api_port=0) as connection:
        with connection.server.core.manager.lease(model_pb2.ModelSpec(name="rbm")) as servable:
            signature, facts = servable.signatures["sample"], servable.facts
        inputs = read_inputs(signature, connection.request("sample", seed=np.arange(10)), facts, 10**6)
        answer = connection.prediction.Predict(connection.request("sample", seed=np.arange(10)), timeout=30)
        arrays = sum(to_array(proto, name).nbytes for name, proto in answer.outputs.items())
        assert inputs.size == 10 * 8 + 2 * arrays


class Call:
    """A call whose client reads the answer only when the test says so."""

    def __init__(self, ended=False):
        self.ended, self.callbacks, self.code = ended, [], None

    def add_callback(self, callback):
        if not self.ended:
            self.callbacks.append(callback)
        return not self.ended

    def is_active(self):
        return not self.ended

    def abort(self, code, message):
        self.code = code
        raise RuntimeError(message)


@pytest.mark.parametrize(("method", "weight"), [("Predict", 1), ("Classify", WEIGHT)])
def test_answers_count_until_clients_have_read_them(method, weight):
    budget = ByteBudget(1000)
    reception = Reception(budget, threads=1)
    request, answer = model_pb2.ModelSpec(name="a" * 20), model_pb2.ModelSpec(name="b" * 300)
    size, sizes = request.ByteSize() * weight, []

    def work(message, context):
        sizes.append(budget.held)
        return answer if message == request else context.abort(grpc.StatusCode.INTERNAL, "another request")

    handler = grpc.unary_unary_rpc_method_handler(work, model_pb2.ModelSpec.FromString, lambda m: m.SerializeToString())
    details = SimpleNamespace(method=f"/tensorflow.serving.PredictionService/{method}")
    behaviour = reception.intercept_service(lambda _: handler, details).stream_unary

    def run(content, call):
        return behaviour(iter([content]), call)

    for ended in (False, True):
        call = Call(ended)
        assert run(request.SerializeToString(), call) == answer
        assert sizes.pop() == size
        assert budget.held == (0 if ended else size + answer.ByteSize())
        assert len(reception.computing.unread) == (0 if ended else 1)
        for callback in call.callbacks:
            callback()
        assert budget.held == 0
        assert len(reception.computing.unread) == 0
    for content, code in ((b"", "INTERNAL"), (b"\xff", "INTERNAL"), (b"\n" * 1001, "RESOURCE_EXHAUSTED")):
        call = Call()
        with pytest.raises(RuntimeError):
            run(content, call)
        assert call.code.name == code
        call.callbacks.pop()()
        assert budget.held == 0
    budget.take(900)
    call = Call()
    with pytest.raises(RuntimeError, match="over the limit"):  # there is no room for the answer
        run(request.SerializeToString(), call)
    call.callbacks.pop()()
    assert budget.held == 900


def test_rest_answers_count_while_they_are_sent():
    core = ServerCore(ModelManager(model_server_config_pb2.ModelServerConfig()), Admission(1, 1))
    pieces = RestServer._held(SimpleNamespace(core=core, _writing=None), 70, iter([b"a", b"b"]))
    assert next(pieces) == b""
    assert core.bytes_in_flight.held == 70
    assert next(pieces) == b"a"
    del pieces  # the client has left
    assert core.bytes_in_flight.held == 0


def test_few_large_answers_are_written_at_the_same_time(connection):
    """Each piece takes milliseconds in which nothing else runs; small answers do not wait for large ones."""
    rest, writing, lock = connection.server._rest, [], threading.Lock()
    most = 0

    def pieces():
        nonlocal most
        for _ in range(3):
            with lock:
                writing.append(1)
                most = max(most, len(writing))
            time.sleep(0.02)
            with lock:
                writing.pop()
            yield b"a"

    answers: list = []
    threads = [threading.Thread(target=lambda: answers.append(list(rest._held(2**20, pieces())))) for _ in range(8)]
    for thread in threads:
        thread.start()
    with contextlib.ExitStack() as taken:
        for _ in range(WRITERS):
            taken.enter_context(rest._writing)
        assert list(rest._held(10, iter([b"small"]))) == [b"", b"small"]
    for thread in threads:
        thread.join()
    assert answers == [[b"", b"a", b"a", b"a"]] * 8
    assert most == WRITERS


def test_byte_budget():
    budget = ByteBudget(10)
    with budget.hold(6), pytest.raises(ServingError, match="take 6 bytes, and 5 more"), budget.hold(5):
        pass
    with budget.hold(10):
        assert budget.held == 10
    assert budget.held == 0


def test_work_budget():
    budget = WorkBudget(10_000)
    with budget.hold(20_000), budget.hold(10):  # one alone may be as large as it likes; small ones do not count
        assert budget.held == 20_000
        with pytest.raises(ServingError, match="have 20000 rows times steps, and 11 more"), budget.hold(11):
            pass
    with budget.hold(6000), budget.hold(4000), pytest.raises(ServingError, match="RESOURCE"), budget.hold(11):
        pass
    assert budget.held == 0


def test_work_in_flight(base):
    """What would not be done in time is refused at once, and accepted again when there is room."""
    work = {"visible": np.zeros([1, N_V], "float32"), "seed": np.zeros(1, "int64")}
    with running(base, rest_api_port=0, max_row_steps_in_flight=1_100_000, max_running=4) as connection:
        held = connection.server.core.work_in_flight
        long = connection.request("gibbs", **work, steps=np.full(1, 1_000_000, "int32"))
        call = connection.prediction.Predict.future(long, timeout=300)
        eventually(lambda: held.held == 1_000_000)
        more = connection.request("gibbs", **work, steps=np.full(1, 100_001, "int32"))
        code, details = refusal(connection, more)
        assert code == "RESOURCE_EXHAUSTED"
        assert "1000000 rows times steps, and 100001 more" in details
        connection.predict("gibbs", **work, steps=np.full(1, 1000, "int32"))
        call.cancel()
        eventually(lambda: held.held == 0, 20)


def test_rows_of_samples_times_steps(base):
    """`sample` makes the steps that the publisher has chosen, 20 here; a client's chunk of rows is always allowed."""
    with running(base, rest_api_port=0, max_row_steps=30_000) as connection:
        connection.predict("sample", seed=np.arange(1500))
        code, details = refusal(connection, connection.request("sample", seed=np.arange(1501)))
        assert code == "INVALID_ARGUMENT"
        assert "Received: 1501 rows of up to 20 steps" in details
    assert SAMPLE_ROWS >= MAX_CHUNK
    with running(base, rest_api_port=0, max_row_steps=10) as connection:
        connection.predict("sample", seed=np.arange(SAMPLE_ROWS))
        assert refusal(connection, connection.request("sample", seed=np.arange(SAMPLE_ROWS + 1)))[0] == code


def test_without_memory_for_a_tensor_there_is_an_error():
    """The library returns a null pointer, which must not be written to."""
    program = """
import resource
import numpy as np
from serving import c_library, c_tensors
array = np.zeros(2**28, "uint8")
c_library.library()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))
try:
    c_tensors.new_tensor(array)
except c_library.SessionError as error:
    print(error.code, error.message)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.startswith("8 There is no memory for a tensor")


@pytest.mark.slow
def test_six_huge_shapes_under_a_memory_limit(base):
    """They took 2 GB each, and then the process ended by a segmentation fault."""
    with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={base}") as process:
        connection = process.wait_until_serving()
        connection.predict("clamp", **ONE)
        with open(f"/proc/{process.process.pid}/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.prlimit(process.process.pid, resource.RLIMIT_AS, (used + 2**30, used + 2**30))
        before = process.memory_megabytes()
        request = connection.request("clamp", **ONE)
        short(request, "visible", 10**7, N_V)
        short(request, "mask", 10**7, N_V)
        start = time.monotonic()
        calls = [connection.prediction.Predict.future(request, timeout=30) for _ in range(6)]
        assert {call.code().name for call in calls} == {"INVALID_ARGUMENT"}
        assert time.monotonic() - start < 5
        assert process.memory_megabytes() < before + 300
        connection.predict("clamp", **ONE)
        assert process.process.poll() is None
