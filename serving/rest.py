"""The REST interface, and the web page beside it."""

from __future__ import annotations

import http.server
import json
import logging
import re
import threading
import time
from importlib import resources
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from serving import json_tensors
from serving.core import ServerCore
from serving.errors import ServingError, invalid
from serving.metrics import Metrics

MAX_BODY = 2**26
MAX_CONNECTIONS = 256
LONGEST_NUMBER = 100  # digits
IDLE_SECONDS = 60.0
_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
PREDICT = re.compile(_MODEL + r":(predict|classify|regress)", re.IGNORECASE)
STATUS = re.compile(_MODEL, re.IGNORECASE)
METADATA = re.compile(_MODEL + r"/metadata", re.IGNORECASE)

log = logging.getLogger("serving")


class RestServer:
    """An HTTP/1.1 server on a separate port.

    Args:
        core: answers the requests.
        metrics: counts them.
        address: host and port; port 0 for any free one.
        timeout: seconds that a request may take.
        metrics_path: where Prometheus finds the metrics; ``None`` if they are not offered.
    """

    def __init__(
        self,
        core: ServerCore,
        metrics: Metrics,
        address: tuple[str, int],
        timeout: float = 30.0,
        metrics_path: str | None = None,
    ) -> None:
        self.core, self.metrics, self.timeout, self.metrics_path = core, metrics, timeout, metrics_path
        self._http = _Server(address, self)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), name="rest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Accepts no more connections and requests, and waits for the answers in progress."""
        self._http.stopping = True
        if self._thread.is_alive():
            self._http.shutdown()
        self._http.server_close()
        end = time.monotonic() + grace
        while self._http.busy and time.monotonic() < end:
            time.sleep(0.02)

    # Requests: method, path and body in, status, type and body out

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        start = time.monotonic()
        path = path.partition("?")[0]
        match = PREDICT.fullmatch(path) or METADATA.fullmatch(path) or STATUS.fullmatch(path)
        status, code, kind = 200, "OK", "application/json"
        try:
            kind, content = self._dispatch(method, path, body)
        except ServingError as error:
            status, code = error.http_status, error.code.name
            content = json.dumps({"error": error.message}).encode()
        except Exception as error:
            log.exception("%s %s failed", method, path)
            status, code, content = 500, "INTERNAL", json.dumps({"error": repr(error)[:500]}).encode()
        if match is not None:
            name = match[1] if match[1] in self.core.manager.names() else ""
            self.metrics.record(name, _api_of(path), "REST", code, time.monotonic() - start)
        return status, kind, content

    def _dispatch(self, method: str, path: str, body: bytes) -> tuple[str, bytes]:
        if method == "GET" and path == self.metrics_path:
            return "text/plain; version=0.0.4", self.metrics.text().encode()
        if method == "GET" and path in ("/", "/index.html"):
            return "text/html; charset=utf-8", resources.files("serving").joinpath("page.html").read_bytes()
        if method == "GET" and path == "/page/models":
            return "application/json", json.dumps(self._models()).encode()
        if method == "POST" and (match := PREDICT.fullmatch(path)):
            return "application/json", self._predict(_spec(match), match[4].lower(), body)
        if method == "GET" and (match := METADATA.fullmatch(path)):
            request = get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=_spec(match), metadata_field=["signature_def"]
            )
            return "application/json", _json_of(self.core.get_model_metadata(request))
        if method == "GET" and (match := STATUS.fullmatch(path)):
            return "application/json", _json_of(
                self.core.get_model_status(get_model_status_pb2.GetModelStatusRequest(model_spec=_spec(match)))
            )
        raise invalid(f"Malformed request: {method} {path[:200]}")

    def _predict(self, spec: model_pb2.ModelSpec, method: str, body: bytes) -> bytes:
        deadline = time.monotonic() + self.timeout
        document = json_tensors.parse_object(body)
        spec.signature_name = document.get("signature_name", "")
        if method != "predict":
            raise self.core.infer(spec, True, method)
        inputs, by_rows = json_tensors.to_inputs(document, self.core.input_types(spec))
        return json_tensors.from_response(self.core.predict(json_tensors.to_request(spec, inputs), deadline), by_rows)

    def _models(self) -> list[dict[str, Any]]:
        """Name, version and facts of each model, which the page shows."""
        models = []
        for name in self.core.manager.names():
            spec = model_pb2.ModelSpec(name=name)
            try:
                with self.core.manager.lease(spec) as servable:
                    facts, version = servable.facts, servable.version
            except ServingError:
                facts, version = {}, None
            models.append({"name": name, "version": version, "facts": facts})
        return models


def _spec(match: re.Match[str]) -> model_pb2.ModelSpec:
    name, version, label = match[1], match[2], match[3]
    spec = model_pb2.ModelSpec(name=name)
    if version is not None:
        # Python refuses to read numbers of thousands of digits.
        if len(version) > LONGEST_NUMBER or int(version) >= 2**63:
            raise invalid(f"Failed to convert version: {version[:200]} to numeric.")
        spec.version.value = int(version)
    if label is not None:
        spec.version_label = label
    return spec


def _api_of(path: str) -> str:
    if ":" in path:
        return path.rpartition(":")[2].capitalize()
    return "GetModelMetadata" if path.endswith("/metadata") else "GetModelStatus"


def _json_of(message: Any) -> bytes:
    text = json_format.MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=1
    )
    return text.encode()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], rest: RestServer) -> None:
        self.rest = rest
        self.busy = 0  # requests that are being answered
        self.stopping = False  # open connections may still bring requests, which are refused
        self.lock = threading.Lock()
        self._connections = threading.Semaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("A connection broke", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "wcd-serve"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        body = self._body()
        if body is None:
            return
        with self.server.lock:
            self.server.busy += 1
        try:
            # Checked after the request is counted: `RestServer.stop` waits for it, or it is refused here.
            if self.server.stopping:
                self._refuse(503, "The server is shutting down")
            else:
                self._send(*self.server.rest.answer(method, self.path, body))
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def _body(self) -> bytes | None:
        text = self.headers.get("Content-Length", "0")
        number = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
        if "Transfer-Encoding" in self.headers or not number or int(text) > MAX_BODY:
            self._refuse(400, f"A request needs a Content-Length of at most {MAX_BODY} bytes")
            return None
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            self.close_connection = True
            return None
        return body

    def _refuse(self, status: int, message: str) -> None:
        """Answers with an error, and closes the connection."""
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"error": message}).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log.debug(format, *args)
