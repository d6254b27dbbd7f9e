"""Work that nobody wants any more ends: after a client has left, at deadlines, and at the end of the server."""

import dataclasses
import signal
import threading
import time

import grpc
import numpy as np
import pytest

from serving.admission import Admission, Limits
from serving.cancellation import Cancellation
from serving.errors import ServingError
from serving.options import Options
from serving.servable import Servable
from serving.server import Server
from tests.serving.conftest import N_V, Connection, eventually, put, running
from tests.support.processes import serving_process
from tf_wcd.export import manifest, warmup

X = np.zeros([10, N_V], "float32")
LONG = {"visible": X[:1], "seed": np.arange(1), "steps": np.full(1, 1_000_000, "int32")}  # a minute and more
SHORT = {"visible": X, "seed": np.arange(10), "steps": np.full(10, 3, "int32")}


@pytest.fixture(params=[False, True], ids=["plain", "batching"])
def busy(request, base):
    """A server with one place to compute at."""
    options = {"max_running": 1, "max_waiting": 8, "rest_api_port": 0, "enable_batching": request.param}
    with running(base, **options) as connection:
        connection.truth = connection.predict("gibbs", **SHORT)
        yield connection


def at_work(connection, count=1):
    return len(connection.server.core._wanted) == count


def test_a_cancelled_call_stops_computing(busy):
    calls = [busy.prediction.Predict.future(busy.request("gibbs", **LONG), timeout=300) for _ in range(3)]
    eventually(lambda: at_work(busy, 3))
    for call in calls:
        call.cancel()
    eventually(lambda: at_work(busy, 0), 20)
    answer = busy.predict("gibbs", **SHORT)
    np.testing.assert_array_equal(answer["visible"], busy.truth["visible"])
    np.testing.assert_array_equal(answer["probability"], busy.truth["probability"])
    # The computation itself has ended: the process is idle.
    eventually(lambda: _cpu_seconds_of(0.3) < 0.1, 20)


def _cpu_seconds_of(seconds):
    before = time.process_time()
    time.sleep(seconds)
    return time.process_time() - before


def test_a_client_who_leaves_stops_the_computation(busy):
    leaving = Connection(busy.port, None)
    call = leaving.prediction.Predict.future(leaving.request("gibbs", **LONG), timeout=300)
    eventually(lambda: at_work(busy))
    leaving.channel.close()
    eventually(lambda: at_work(busy, 0), 20)
    assert call.done()
    busy.predict("gibbs", **SHORT)


def test_deadlines_of_the_server(base):
    with running(base, rest_api_port=0, default_deadline_seconds=0.3, max_deadline_seconds=0.6) as connection:
        for timeout in (None, 300):
            with pytest.raises(grpc.RpcError) as error:
                connection.prediction.Predict(connection.request("gibbs", **LONG), timeout=timeout)
            assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    limits = Limits(default_deadline_seconds=5, max_deadline_seconds=9)
    now = time.monotonic()
    assert 4.9 < limits.deadline(None) - now < 5.1
    assert limits.deadline(now + 7) == now + 7
    assert limits.deadline(now + 100) - now < 9.1


def test_the_end_of_the_grace_stops_computations(base):
    with running(base, rest_api_port=0, shutdown_grace_seconds=0.2) as connection:
        call = connection.prediction.Predict.future(connection.request("gibbs", **LONG), timeout=300)
        eventually(lambda: at_work(connection))
        connection.server.stop()
        assert call.exception(30).code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        assert at_work(connection, 0)


def test_runs_are_stopped_one_by_one(library):
    """Each slot many times; what is stopped too early or too late does no harm to the next run."""
    servable = Servable("rbm", 1, library[0])
    signature = servable.signatures["gibbs"]
    fetches = [info.name for info in signature.outputs.values()]

    def feeds(arrays):
        return {signature.inputs[key].name: value for key, value in arrays.items()}

    truth = servable.run(feeds(SHORT), fetches)
    for _ in range(20):
        gone, late = Cancellation(), Cancellation()
        gone.cancel()
        with pytest.raises(ServingError, match="CANCELLED"):
            servable.run(feeds(LONG), fetches, None, gone)
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
            servable.run(feeds(LONG), fetches, time.monotonic() + 0.02, late)
        late.cancel()
        for expected, answer in zip(truth, servable.run(feeds(SHORT), fetches, None, Cancellation()), strict=True):
            np.testing.assert_array_equal(answer, expected)
    with pytest.raises(ServingError, match="INVALID_ARGUMENT"):
        servable.run(feeds({**SHORT, "visible": X + 7}), fetches)
    assert servable.close_when_unused(1)


def test_who_waits_may_leave():
    admission, gone = Admission(1, 5), Cancellation()
    gone.cancel()
    with admission.slot(None):
        with pytest.raises(ServingError, match="CANCELLED"), admission.slot(None, gone):
            pass
        with pytest.raises(ServingError, match="DEADLINE"), admission.slot(time.monotonic() + 0.05):
            pass
    with admission.slot(None):
        pass


def test_turns_go_round_first_come_first_served_whoever_leaves():
    """Many threads, some of which are cancelled or late while they wait: no turn is lost, none is given twice."""
    admission, rng = Admission(2, 1000), np.random.default_rng(0)
    lock, inside, most, served, left = threading.Lock(), [0], [0], [], []

    def ask(cancellation, deadline):
        try:
            with admission.slot(deadline, cancellation):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                with lock:
                    inside[0] -= 1
                served.append(cancellation)
        except ServingError:
            left.append(cancellation)

    asked = [(Cancellation(), time.monotonic() + rng.choice([0.05, 60.0])) for _ in range(200)]
    threads = [threading.Thread(target=ask, args=each) for each in asked]
    for thread in threads:
        thread.start()
    for number in rng.choice(len(asked), 60, replace=False):
        asked[number][0].cancel()
    for thread in threads:
        thread.join(60)
    assert len(served) + len(left) == len(asked)
    assert served
    assert most == [2]
    with admission.slot(time.monotonic() + 1), admission.slot(time.monotonic() + 1):
        pass  # both turns are free again


@pytest.mark.parametrize("seconds", [float("inf"), 1e12])
def test_deadlines_that_never_come(seconds):
    """Python cannot wait for so long: it raised an error, and a turn was given to whoever had left."""
    limits, admission = Limits(max_deadline_seconds=seconds, default_deadline_seconds=seconds), Admission(1, 10)
    done: list = []

    def ask():
        with admission.slot(limits.deadline(None)):
            done.append(1)

    with admission.slot(limits.deadline(None)):
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(admission._queue) == 3)
    for thread in threads:
        thread.join(10)
    assert len(done) == 3


def test_an_error_while_waiting_leaves_no_ticket():
    admission = Admission(1, 10)
    with admission.slot(None), pytest.raises(OverflowError), admission.slot(float("inf")):
        pass
    with admission.slot(time.monotonic() + 1):
        pass  # the turn is free again


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_are_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be above 0. Received: {value}"):
        Limits(**{name: value})


def test_a_server_that_may_take_for_ever_still_stops(base):
    """As long as Python can wait, that is."""
    seconds = {name: float("inf") for name in ("shutdown_grace_seconds", "max_deadline_seconds")}
    with running(base, rest_api_port=0, default_deadline_seconds=float("inf"), **seconds) as connection:
        connection.prediction.Predict(connection.request("gibbs", **SHORT))


def test_a_limit_that_is_none_starts_no_threads(base):
    before = threading.active_count()
    with pytest.raises(ValueError, match="max_deadline_seconds must be above 0"):
        Server(Options(model_base_path=str(base), enable_batching=True, max_deadline_seconds=-1))
    assert threading.active_count() == before


def test_whoever_came_first_is_served_first():
    admission, order = Admission(1, 10), []

    def ask(number):
        with admission.slot(None):
            order.append(number)

    with admission.slot(None):
        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=ask, args=(number,)))
            threads[-1].start()
            eventually(lambda n=number: len(admission._queue) == n + 1)
    for thread in threads:
        thread.join(10)
    assert order == list(range(5))


@pytest.mark.slow
def test_signals(base, tmp_path):
    """SIGHUP does nothing; SIGTERM ends the process when the grace is over, whatever is computed or loaded."""
    grace = "--shutdown_grace_seconds=1"
    with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={base}", grace) as process:
        connection = process.wait_until_serving()
        process.send(signal.SIGHUP)
        connection.predict("gibbs", **SHORT)
        request = connection.request("gibbs", **LONG)
        calls = [connection.prediction.Predict.future(request, timeout=300) for _ in range(4)]
        time.sleep(1)
        assert not any(call.done() for call in calls)
        start = time.monotonic()
        process.send(signal.SIGTERM)
        assert process.wait(60) == 0
        assert time.monotonic() - start < 15  # a minute and more without the stop
        assert "SIGHUP" in process.log
    # A version whose warm-up takes a minute and more.
    loads = put(base / "1", tmp_path / "loads", 1)
    (loads / "assets.extra" / warmup.FILE).unlink()
    warmup.write_warmup(loads / "assets.extra", {"gibbs": LONG})
    (loads / manifest.MANIFEST).unlink()
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={loads.parent}", grace) as process:
            eventually(lambda p=process: "Loading version 1" in p.log, 120)
            time.sleep(1)
            start = time.monotonic()
            process.send(number)
            assert process.wait(60) == 0
            assert time.monotonic() - start < 15
            assert "Shutting down" in process.log


@pytest.mark.slow
def test_signals_while_many_versions_load(library, tmp_path):
    """SIGTERM is obeyed between two of them: the others are not loaded first."""
    count = 100
    for version in range(1, count + 1):
        put(library[0], tmp_path / "rbm", version)
    config = tmp_path / "models.config"
    model = f'name: "rbm" base_path: "{tmp_path}/rbm" model_version_policy {{ all {{}} }}'
    config.write_text(f"model_config_list {{ config {{ {model} }} }}")
    with serving_process("--port=-1", f"--model_config_file={config}", "--shutdown_grace_seconds=1") as process:
        eventually(lambda: "Version 3 of rbm is available" in process.log, 120)
        start = time.monotonic()
        process.send(signal.SIGTERM)
        assert process.wait(60) == 0
        assert time.monotonic() - start < 15
        assert process.log.count("is available") < count
