"""The embedded server: TF-Serving's protocol, flags and answers, in one Python process.

wcd serve --model_name=digits --model_base_path=models/digits --port=8500 --rest_api_port=8501
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving import config_files
from serving import options as flags
from serving.admission import LONGEST, Admission, Limits
from serving.batching import Batcher
from serving.batching_parameters import BatchingParameters
from serving.config_poller import ConfigPoller
from serving.core import ServerCore
from serving.errors import ServingError
from serving.grpc_services import HealthService, ModelService, PredictionService
from serving.manager import ModelManager
from serving.memory import give_back_large_blocks
from serving.metrics import Metrics
from serving.open_files import grpc_connections, raise_limit
from serving.reception import Reception
from serving.rest import RestServer

MAX_MESSAGE_BYTES = 2**31 - 1
STOPPING_SECONDS = 2.0  # for computations to stop that are told to
KEEPALIVE_MS = 30_000
HANDSHAKE_MS = 10_000  # for a connection to say that it is one of gRPC
CONNECTION_MS = 600_000  # after which clients connect anew, without an error
SPARE_THREADS = 16  # for requests that need no computation, besides those that run and wait

log = logging.getLogger("serving")


class Server:
    """A server in this process.

    Args:
        options: see `serving.options.Options`.

    Attributes:
        port: the gRPC port, after `start`; ``None`` if it is not open.
        rest_port: the REST port.

    Raises:
        ValueError: for files that cannot be read, and invalid lists of models.
        RuntimeError: for ports that cannot be opened.
    """

    def __init__(self, options: flags.Options) -> None:
        self.options = options
        config = (
            config_files.read_models(options.model_config_file)
            if options.model_config_file
            else config_files.one_model(options.model_name, options.model_base_path)
        )
        self.metrics = Metrics()
        try:
            roots = flags.reload_roots(options)
            self.manager = ModelManager(
                config, options.file_system_poll_wait_seconds, options.enable_model_warmup, roots
            )
        except ServingError as error:
            raise ValueError(error.message) from None
        self._poller = ConfigPoller(
            options.model_config_file, self.manager, options.model_config_file_poll_wait_seconds
        )
        self._tls = config_files.read_tls(options.ssl_config_file) if options.ssl_config_file else None
        self._metrics_path = (
            config_files.read_monitoring(options.monitoring_config_file) if options.monitoring_config_file else None
        )
        limits = Limits(**{name: getattr(options, name) for name in Limits.__dataclass_fields__})
        admission = Admission(options.max_running, options.max_waiting)
        self._batcher = None
        if options.enable_batching:
            # Its threads run from now on: everything that may fail comes before.
            file = options.batching_parameters_file
            self._batcher = Batcher(config_files.read_batching(file) if file else BatchingParameters())
        self.core = ServerCore(
            self.manager, admission, self._batcher, limits, options.enable_signature_method_name_check
        )
        self._grpc: grpc.Server | None = None
        self._rest: RestServer | None = None
        self._reception: Reception | None = None
        self._health: HealthService | None = None
        self._interrupted = False
        self.port: int | None = None
        self.rest_port: int | None = None

    def start(self, wait_for_models: threading.Event | None = None) -> None:
        """Loads the models, then opens the ports.

        Args:
            wait_for_models: an event that ends the wait for models; then no port is opened.

        Raises:
            RuntimeError: if a model cannot be loaded, if it has no version and its folder is not polled, or if a port
                cannot be opened.
        """
        if flags.reload_roots(self.options) != [] and not flags.is_loopback(self.options.host):
            log.warning("Anyone who reaches %s can change the models of this server", self.options.host)
        self.manager.start()
        if self._interrupted:
            return
        told = ""
        while self.manager.missing():
            failures = self.manager.failures()
            if failures:
                raise RuntimeError("; ".join(f"{name} cannot be loaded: {why}" for name, why in failures.items()))
            missing = "; ".join(map(self.manager.why_missing, self.manager.missing()))
            if self.options.file_system_poll_wait_seconds <= 0:
                raise RuntimeError(
                    f"{missing}. The server looks only once: --file_system_poll_wait_seconds must be above 0 for it to "
                    f"wait. Received: {self.options.file_system_poll_wait_seconds:g}"
                )
            if missing != told:
                log.warning("Waiting: %s", missing)
            told = missing
            if (wait_for_models or threading.Event()).wait(1.0):
                return
        if self._interrupted:
            return
        self._poller.start()
        if self.options.port or self.options.grpc_socket_path:
            self._start_grpc()
        if self.options.rest_api_port:
            address = (self.options.host, max(0, self.options.rest_api_port))
            limits = flags.rest_limits(self.options)
            try:
                self._rest = RestServer(self.core, self.metrics, address, self._metrics_path, limits)
            except OSError as error:
                raise RuntimeError(f"The REST port {address[1]} cannot be opened: {error}") from None
            self._rest.start()
            self.rest_port = self._rest.port

    def _start_grpc(self) -> None:
        options = self.options
        threads = options.max_running + options.max_waiting + SPARE_THREADS
        arguments: dict[str, Any] = {
            "grpc.max_receive_message_length": min(MAX_MESSAGE_BYTES, max(2**20, options.max_bytes_in_flight // 8)),
            "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
            "grpc.so_reuseport": 0,
            "grpc.per_message_decompression": 0,  # gRPC would unpack before anybody counts
            # Clients that have stopped reading or answering are dropped, and their answers with them.
            "grpc.keepalive_time_ms": KEEPALIVE_MS,
            "grpc.keepalive_timeout_ms": KEEPALIVE_MS,
            "grpc.http2.max_pings_without_data": 0,
            "grpc.server_handshake_timeout_ms": HANDSHAKE_MS,
            "grpc.max_allowed_incoming_connections": grpc_connections(
                bool(options.port) + bool(options.grpc_socket_path)
            ),
            "grpc.max_connection_age_ms": CONNECTION_MS,
            "grpc.max_connection_age_grace_ms": int(1e3 * min(options.max_deadline_seconds, 1e6)) + KEEPALIVE_MS,
            **dict(flags.channel_arguments(options.grpc_channel_arguments)),  # the operator's win
        }
        most_bytes = int(arguments["grpc.max_receive_message_length"])
        self._reception = reception = Reception(self.core.bytes_in_flight, threads, most_bytes)
        server = grpc.server(
            reception.reserved.pool,
            interceptors=[reception],
            options=list(arguments.items()),
            maximum_concurrent_rpcs=reception.most_calls,
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(self.core, self.metrics, options.access_log), server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(self.core, self.metrics, options.access_log), server
        )
        if options.enable_grpc_healthcheck_service:
            self._health = HealthService(self.core)
            health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if options.port:
            address = f"{options.host}:{max(0, options.port)}"
            try:
                self.port = self._listen(server, address)
            except RuntimeError:
                raise RuntimeError(
                    f"The gRPC port {options.port} cannot be opened on {options.host}: another program may have it. "
                    "--port=-1 takes any free one"
                ) from None
        if options.grpc_socket_path:
            self._listen(server, f"unix:{options.grpc_socket_path}")
        reception.start()
        server.start()
        self._grpc = server

    def _listen(self, server: grpc.Server, address: str) -> int:
        """Opens a port or a socket, encrypted if there are keys."""
        if self._tls is None:
            return server.add_insecure_port(address)
        key, certificate, authority, verify = self._tls
        return server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)], authority, verify))

    def interrupt(self) -> None:
        """Ends `start`, which may be loading: another thread calls this before `stop`."""
        self._interrupted = True
        self.manager.interrupt()

    def stop(self) -> None:
        """Refuses new requests with UNAVAILABLE, finishes accepted ones, and frees everything.

        What is not finished when the time of grace is over is stopped.
        """
        grace = min(self.options.shutdown_grace_seconds, LONGEST)
        end = time.monotonic() + grace
        if self._health is not None:
            self._health.stop()
        stopped = self._grpc.stop(grace) if self._grpc is not None else None
        if self._rest is not None:
            self._rest.stop(max(0.0, end - time.monotonic()))
        if stopped is not None:
            stopped.wait(max(0.0, end - time.monotonic()))
        if self._batcher is not None:
            self._batcher.stop(max(0.0, end - time.monotonic()))
        self.core.cancel_all()
        if stopped is not None:
            stopped.wait(STOPPING_SECONDS)
        if self._reception is not None:
            self._reception.stop()
        self._poller.stop()
        self.manager.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``wcd serve``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    options, unknown = flags.parse(given)
    if options.engine == "tensorflow_model_server":
        return _run_model_server(given)
    for argument in unknown:
        log.warning("The flag %s is not known here, and ignored", argument)
    give_back_large_blocks()
    raise_limit()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: log.info("SIGHUP: nothing to do"))
    try:
        return _serve(Server(options), stop)
    except (ValueError, RuntimeError, OSError) as error:
        print(f"wcd serve: {error}", file=sys.stderr)
        return 1


def _serve(server: Server, stop: threading.Event) -> int:
    """Serves until the event is set. Models are loaded by another thread: signals come to this one at any time."""
    problems: list[BaseException] = []

    def start() -> None:
        try:
            server.start(stop)
            if not stop.is_set():
                log.info("Serving: gRPC port %s, REST port %s", server.port, server.rest_port)
                if server.rest_port is not None:
                    log.info("Web page: %s", flags.url_of(server.options.host, server.rest_port))
        except BaseException as error:
            problems.append(error)
            stop.set()

    starter = threading.Thread(target=start, name="start", daemon=True)
    starter.start()
    stop.wait()
    if not problems:
        log.info("Shutting down")
    grace = min(server.options.shutdown_grace_seconds, LONGEST)
    last = _exit_after(grace + 2 * STOPPING_SECONDS, code=1 if problems else 0)
    server.interrupt()
    starter.join()
    server.stop()
    last.cancel()
    if problems:
        raise problems[0]
    return 0


def _exit_after(seconds: float, code: int) -> threading.Timer:
    """Ends the process when the time is over, whatever a thread still does: reads a pipe instead of a model, say."""

    def end() -> None:
        log.error("Something did not end in time: the process ends without it")
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def _run_model_server(arguments: Sequence[str]) -> int:
    """Replaces this process by `tensorflow_model_server`."""
    program = shutil.which("tensorflow_model_server")
    if program is None:
        print("wcd serve: tensorflow_model_server is not on the PATH", file=sys.stderr)
        return 1
    sys.stderr.flush()
    return os.execv(program, [program, *flags.model_server_arguments(arguments)])


if __name__ == "__main__":
    sys.exit(main())
