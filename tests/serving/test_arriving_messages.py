"""Messages on their way: what is packed unfolds under a limit, and what never comes to its end is given up."""

import gzip
import threading
import time
import zlib

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from serving.admission import ByteBudget
from serving.arriving import LOOKS, SLOW_SECONDS, ArrivingMemory
from serving.errors import exhausted
from serving.packed_messages import PIECE, unpacked
from serving.reception import LOOK_SECONDS, MOST_BYTES, Reception
from serving.waiting_calls import WaitingCalls
from tests.serving.conftest import N_V, running
from tests.serving.test_attacks import attacked
from tests.serving.test_waiting_calls import GET_STATUS, PREDICT, Call
from tests.support.half_sent import HalfSent

PACKED = (grpc.Compression.Gzip, grpc.Compression.Deflate)


def test_unpacked():
    content = np.random.default_rng(0).integers(0, 4, 3 * PIECE, "uint8").tobytes()
    for packed in (gzip.compress(content), zlib.compress(content)):
        sizes: list = []
        assert unpacked(packed, sizes.append) == content
        assert sum(sizes) == len(content)
        assert max(sizes) <= PIECE
        for broken in (packed[:-20], packed[:1000] + bytes(50) + packed[1050:], packed[:1]):
            assert unpacked(broken, lambda size: None) == broken
    assert unpacked(gzip.compress(b""), print) == b""
    for plain in (b"", content, b"\x0a\x03rbm"):
        assert unpacked(plain, print) == plain


def test_what_unfolds_is_counted_before_it_is_there():
    counted = 0

    def count(size):
        nonlocal counted
        counted += size
        if counted > 2**20:
            raise exhausted("enough")

    with pytest.raises(Exception, match="enough"):
        unpacked(gzip.compress(bytes(2**28)), count)
    assert counted <= 2**20 + PIECE


def test_a_packed_message_is_read_once(monkeypatch):
    """What zlib has not read yet it copies: given the whole rest each time, 64 MB took 15 seconds."""
    given, make = [], zlib.decompressobj

    class Recorded:
        def __init__(self, *args):
            self._unpacker = make(*args)

        def decompress(self, content, *args):
            given.append(len(content))
            return self._unpacker.decompress(content, *args)

        def __getattr__(self, name):
            return getattr(self._unpacker, name)

    content = np.random.default_rng(0).bytes(50 * PIECE)
    monkeypatch.setattr("zlib.decompressobj", Recorded)
    for level in (0, 1):
        packed = zlib.compress(content, level)
        given.clear()
        assert unpacked(packed, lambda size: None) == content
        assert sum(given) < 3 * len(packed)


def test_clients_may_pack(base):
    with running(base, rest_api_port=0) as connection:
        request = connection.request("free_energy", visible=np.eye(N_V, dtype="float32"))
        plain = connection.prediction.Predict(request, timeout=20)
        for compression in PACKED:
            assert connection.prediction.Predict(request, timeout=20, compression=compression) == plain
        raw = connection.channel.unary_unary(PREDICT)
        for content in (b"\x1f\x8b nonsense", b"\x78\x9c nonsense", gzip.compress(b"\xff\xff")):
            with pytest.raises(grpc.RpcError) as error:
                raw(content, timeout=20)
            assert error.value.code() is grpc.StatusCode.INTERNAL


def test_packed_messages_have_the_same_limits(base):
    """Of one, of all together, and of questions about the status: whatever few bytes they come in."""
    with running(base, rest_api_port=0, max_bytes_in_flight=2**24) as connection:
        budget = connection.server.core.bytes_in_flight
        for method, size, code in (
            (PREDICT, 2**21 + 1, "RESOURCE_EXHAUSTED"),  # more than an eighth
            (PREDICT, 2**20, "RESOURCE_EXHAUSTED"),  # of parts of two bytes, as far as is known
            (GET_STATUS, MOST_BYTES + 1, "RESOURCE_EXHAUSTED"),
        ):
            with pytest.raises(grpc.RpcError) as error:
                connection.channel.unary_unary(method)(bytes(size), timeout=20, compression=grpc.Compression.Gzip)
            assert error.value.code().name == code
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "rbm", "free_energy"
        request.inputs["visible"].tensor_content = bytes(2**20)
        with budget.hold(2**24 - 2**20), pytest.raises(grpc.RpcError, match="over the limit"):
            connection.prediction.Predict(request, timeout=20, compression=grpc.Compression.Gzip)
        for _ in range(100):
            if budget.held == 0:
                break
            time.sleep(0.05)
        assert budget.held == 0


def test_slow_messages_end_where_memory_grows(monkeypatch):
    now, memory, counted, trimmed = 100.0, 50, 10, []
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("serving.arriving.give_back_free_memory", lambda: trimmed.append(now))
    silent, quick = WaitingCalls(10), Call()
    arriving = ArrivingMemory([WaitingCalls(10), silent], lambda: counted, 100, lambda: memory)
    slow = [Call(), Call()]
    for _ in range(6):
        memory += 1
        arriving.look()
        now += LOOK_SECONDS
    before = memory  # at the last look before the first slow one
    for call in slow:
        silent.add(call, 1000)
    for _ in range(LOOKS - 1):
        memory += 1
        arriving.look()
        now += LOOK_SECONDS
    silent.add(quick, 1000)
    memory = before + 100
    arriving.look()
    memory, counted = before + 200, 110  # of requests that are counted
    arriving.look()
    assert not any(call.cancelled for call in slow)
    memory += 1
    arriving.look()
    assert [call.cancelled for call in slow] == [1, 1]
    assert quick.cancelled == 0
    assert not trimmed
    arriving.look()
    assert len(trimmed) == 1
    arriving.look()
    assert len(trimmed) == 1
    ArrivingMemory([silent], lambda: 0, 100, lambda: None).look()  # where the system does not say


def test_slow_messages_go_on_where_others_are_answered(monkeypatch):
    """What was counted, and is not any more, is not memory that has grown."""
    now, memory, counted = 100.0, 500, 400
    monkeypatch.setattr("time.monotonic", lambda: now)
    silent, slow = WaitingCalls(10), Call()
    arriving = ArrivingMemory([silent], lambda: counted, 100, lambda: memory)
    for _ in range(LOOKS):
        arriving.look()
    silent.add(slow, 1000)
    now += SLOW_SECONDS
    for _ in range(LOOKS - 1):
        arriving.look()
    for count in (0, 400, 0):
        counted = count
        arriving.look()
        assert not slow.cancelled
    memory += 101
    arriving.look()
    assert slow.cancelled == 1


def test_a_process_without_time_takes_no_message_for_slow(monkeypatch):
    """A second from one look to the next: other threads had no more of it than the one that looks."""
    now, memory = 100.0, 50
    monkeypatch.setattr("time.monotonic", lambda: now)
    silent, health = WaitingCalls(10), Call()
    arriving = ArrivingMemory([silent], lambda: 0, 100, lambda: memory)
    for _ in range(LOOKS):
        arriving.look()
        now += 1
    silent.add(health, 1000)
    for _ in range(LOOKS - 1):
        now += 1
        memory += 101
        arriving.look()
        assert not health.cancelled
    now += 1
    arriving.look()
    assert health.cancelled == 1


def test_the_watch_goes_on_after_an_error(monkeypatch):
    looks, watched = threading.Semaphore(0), Reception(ByteBudget(1000), threads=1)

    def look():
        looks.release()
        raise MemoryError

    monkeypatch.setattr("serving.reception.LOOK_SECONDS", 0.001)
    monkeypatch.setattr(watched._arriving, "look", look)
    watched.start()
    try:
        for _ in range(3):
            assert looks.acquire(timeout=20)
    finally:
        watched.stop()


def test_looks_are_as_many_as_they_should_be():
    assert SLOW_SECONDS < LOOKS * LOOK_SECONDS


def send_halves(port, count, size, seconds):
    """Clients that send all but the last byte; how many of their calls have ended."""
    clients = [HalfSent(port, PREDICT, size) for _ in range(count)]
    threads = [threading.Thread(target=client.send, args=(seconds,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    return clients


def test_a_message_that_is_half_sent_keeps_others_from_nothing(base):
    with running(base, rest_api_port=0) as connection:
        half = HalfSent(connection.port, PREDICT, 2**20)
        half.send(0.5)
        assert half.sent == 2**20 + 4
        assert not half.ended
        connection.predict("sample", seed=np.arange(3))
        half.close()


@pytest.mark.slow
def test_messages_that_never_end(base):
    """Twenty times 60 MB, but for the last byte: they are given up before they have taken as much."""
    with attacked(base) as connection:
        clients = send_halves(connection.port, 20, 60 * 2**20, 8)
        print(f"sent {sum(client.sent for client in clients) / 2**20:.0f} MB")
        assert sum(client.ended for client in clients) >= 15
        for _ in range(5):
            connection.predict("sample", seed=np.arange(3))


@pytest.mark.slow
def test_packed_bombs(base):
    """A hundred megabytes in a hundred kilobytes, from thirty clients: no more at a time than the operator allows."""
    with attacked(base, f"--max_bytes_in_flight={2**28}") as connection:
        bomb = bytes(2**25 - 1)
        codes: list = []

        def explode():
            with grpc.insecure_channel(f"127.0.0.1:{connection.port}") as channel:
                for _ in range(3):
                    with pytest.raises(grpc.RpcError) as error:
                        channel.unary_unary(PREDICT)(bomb, timeout=60, compression=grpc.Compression.Gzip)
                    codes.append(error.value.code().name)

        threads = [threading.Thread(target=explode) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == ["RESOURCE_EXHAUSTED"] * 90
