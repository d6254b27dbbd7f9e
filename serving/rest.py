"""The REST interface, and the web page beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2, predict_pb2

from serving import json_examples, json_tensors
from serving.admission import Reservation
from serving.core import ServerCore
from serving.errors import ServingError, deadline_exceeded, invalid
from serving.http_exchange import SMALL_BODY, Answer, Request, RestLimits, error_answer
from serving.http_server import HttpServer
from serving.metrics import Metrics

LONGEST_NUMBER = 100  # digits
PARSERS = 2  # large bodies that are parsed at the same time
WRITERS = 2  # large answers of which a piece is written at the same time
SMALLEST_LIMIT = 2**20  # bytes of a body that any server takes
NUMBER_BYTES = 12  # of a number in JSON, with its comma: nine digits suffice for float32
JSON = "application/json"
_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
PREDICT = re.compile(_MODEL + r":(predict|classify|regress)", re.IGNORECASE)
STATUS = re.compile(_MODEL, re.IGNORECASE)
METADATA = re.compile(_MODEL + r"/metadata", re.IGNORECASE)

log = logging.getLogger("serving")


class RestServer:
    """The REST interface on a port of its own.

    Args:
        core: answers the requests.
        metrics: counts them.
        address: host and port; port 0 for any free one.
        metrics_path: where Prometheus finds the metrics; ``None`` if they are not offered.
        limits: what clients may use.

    Raises:
        OSError: if the port cannot be opened.
    """

    def __init__(
        self,
        core: ServerCore,
        metrics: Metrics,
        address: tuple[str, int],
        metrics_path: str | None = None,
        limits: RestLimits = RestLimits(),  # noqa: B008 - it is frozen
    ) -> None:
        self.core, self.metrics, self.limits, self.metrics_path = core, metrics, limits, metrics_path
        self._parsing, self._writing = threading.Semaphore(PARSERS), threading.Semaphore(WRITERS)
        self._http = HttpServer(self.answer, lambda path: PREDICT.match(path) is None, address, limits, self.largest)
        self.port = self._http.port

    def start(self) -> None:
        self._http.start()

    def stop(self, grace: float) -> None:
        """Accepts no more connections and requests, and waits for the answers in progress."""
        self._http.stop(grace)

    def largest(self) -> int:
        """Bytes of the largest body that a model of this server can answer; the limit if that is not known."""
        largest = SMALLEST_LIMIT
        for facts, _ in map(self._facts, self.core.manager.names()):
            rows, units = facts.get("max_rows"), facts.get("visible_units")
            if not isinstance(rows, int) or not isinstance(units, int):
                return self.limits.max_body
            # Of the two arrays of `clamp`, and a seed and a number of steps; names and brackets besides.
            largest = max(largest, rows * (2 * units * NUMBER_BYTES + 100))
        return min(largest, self.limits.max_body)

    # Requests

    def answer(self, request: Request) -> Answer:
        start = time.monotonic()
        path = request.path.partition("?")[0]
        match = PREDICT.fullmatch(path) or METADATA.fullmatch(path) or STATUS.fullmatch(path)
        code = "OK"
        try:
            answer = self._dispatch("GET" if request.method == "HEAD" else request.method, path, request)
        except ServingError as error:
            answer, code = error_answer(error.http_status, error.message), error.code.name
        except Exception as error:
            log.exception("%s %s failed", request.method, path[:200])
            answer, code = error_answer(500, repr(error)[:500]), "INTERNAL"
        if match is not None:
            name = _name_of(match) if _name_of(match) in self.core.manager.names() else ""
            self.metrics.record(name, _api_of(path), "REST", code, time.monotonic() - start)
        return answer

    def _dispatch(self, method: str, path: str, request: Request) -> Answer:
        if method == "GET" and path == self.metrics_path:
            return Answer(200, "text/plain; version=0.0.4", [self.metrics.text().encode()])
        if method == "GET" and path in ("/", "/index.html"):
            page = resources.files("serving").joinpath("page.html").read_bytes()
            return Answer(200, "text/html; charset=utf-8", [page])
        if method == "GET" and path == "/page/models":
            return Answer(200, JSON, [json.dumps(self._models()).encode()])
        if method == "POST" and (match := PREDICT.fullmatch(path)):
            return Answer(200, JSON, self._predict(_spec(match), match[4].lower(), request))
        if method == "GET" and (match := METADATA.fullmatch(path)):
            metadata = get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=_spec(match), metadata_field=["signature_def"]
            )
            return Answer(200, JSON, [metadata_json(self.core.get_model_metadata(metadata))])
        if method == "GET" and (match := STATUS.fullmatch(path)):
            status = get_model_status_pb2.GetModelStatusRequest(model_spec=_spec(match))
            return Answer(200, JSON, [_json_of(self.core.get_model_status(status))])
        raise invalid(f"Malformed request: {method} {path[:200]}")

    def _predict(self, spec: model_pb2.ModelSpec, method: str, request: Request) -> Iterable[bytes]:
        deadline = time.monotonic() + self.limits.timeout
        with self.core.bytes_in_flight.hold(len(request.body)) as held:
            if method != "predict":
                return [self._inferred(spec, method, request, deadline, held)]
            inputs, by_rows = self._parsed(spec, request, deadline)
            outputs = self.core.outputs(inputs, deadline, request.cancellation)
            size = sum(array.nbytes for array in outputs.values())
            pieces = self._held(size, json_tensors.from_arrays(outputs, by_rows))
            next(pieces)
        return pieces

    def _held(self, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces after an empty one, from which on so many bytes are held until nobody wants more pieces.

        Few threads write large answers at the same time: each keeps the others from running for some milliseconds.
        """
        large = size > SMALL_BODY
        rest = iter(pieces)
        with self.core.bytes_in_flight.hold(size):
            yield b""
            while True:
                with self._writing if large else contextlib.nullcontext():
                    piece = next(rest, None)
                if piece is None:
                    return
                yield piece

    def _parsed(
        self, spec: model_pb2.ModelSpec, request: Request, deadline: float
    ) -> tuple[predict_pb2.PredictRequest, bool]:
        """The request as a message, and whether it listed rows."""
        with self._turn_to_parse(request, deadline):
            document = json_tensors.parse_object(request.body, lambda: _check(request, deadline))
            request.body = b""
            spec.signature_name = document.get("signature_name", "")
            inputs, by_rows = json_tensors.to_inputs(document, self.core.input_types(spec))
            return json_tensors.to_request(spec, inputs), by_rows

    def _inferred(
        self, spec: model_pb2.ModelSpec, method: str, request: Request, deadline: float, held: Reservation
    ) -> bytes:
        """The answer to a request with examples."""
        inference = self.core.inference
        inference.check_method(spec, method)
        message = json_examples.new_request(method)
        with self._turn_to_parse(request, deadline):
            check = lambda: _check(request, deadline)  # noqa: E731
            document = json_tensors.parse_object(request.body, check, json_examples.members(message.input, held.add))
            spec.signature_name = document.get("signature_name", "")
            json_examples.complete(message, document, spec)
        if method == "classify":
            return json_examples.from_classes(inference.classify(message, deadline, request.cancellation))
        return json_examples.from_values(inference.regress(message, deadline, request.cancellation))

    @contextlib.contextmanager
    def _turn_to_parse(self, request: Request, deadline: float) -> Iterator[None]:
        """Few large bodies are parsed at the same time: that bounds the memory, and small ones need not wait."""
        if len(request.body) <= SMALL_BODY:
            yield
            return
        if not self._parsing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise deadline_exceeded()
        try:
            yield
        finally:
            self._parsing.release()

    def _models(self) -> list[dict[str, Any]]:
        """Name, version and facts of each model, which the page shows."""
        models = []
        for name in self.core.manager.names():
            facts, version = self._facts(name)
            models.append({"name": name, "version": version, "facts": facts})
        return models

    def _facts(self, name: str) -> tuple[dict[str, Any], int | None]:
        try:
            with self.core.manager.lease(model_pb2.ModelSpec(name=name)) as servable:
                return servable.facts, servable.version
        except ServingError:
            return {}, None


def _check(request: Request, deadline: float) -> None:
    """Ends the work on a request that nobody waits for any more."""
    if time.monotonic() > deadline:
        raise deadline_exceeded()
    request.cancellation.check()


def _spec(match: re.Match[str]) -> model_pb2.ModelSpec:
    version, label = match[2], match[3]
    spec = model_pb2.ModelSpec(name=_name_of(match))
    if version is not None:
        # Python refuses to read numbers of thousands of digits.
        if len(version) > LONGEST_NUMBER or int(version) >= 2**63:
            raise invalid(f"Failed to convert version: {version[:200]} to numeric.")
        spec.version.value = int(version)
    if label is not None:
        spec.version_label = urllib.parse.unquote(label)
    return spec


def _name_of(match: re.Match[str]) -> str:
    """The model's name; in a path, spaces and the like are sent as their codes."""
    return urllib.parse.unquote(match[1])


def _api_of(path: str) -> str:
    if ":" in path:
        return path.rpartition(":")[2].capitalize()
    return "GetModelMetadata" if path.endswith("/metadata") else "GetModelStatus"


def metadata_json(response: get_model_metadata_pb2.GetModelMetadataResponse) -> bytes:
    """As TF-Serving writes it: the signatures are unpacked, without the name of their message."""
    table = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(table)
    spec, signatures = _json_of(response.model_spec), _json_of(table)
    return b'{"model_spec": %b, "metadata": {"signature_def": %b}}' % (spec, signatures)


def _json_of(message: Any) -> bytes:
    text = json_format.MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=1
    )
    return text.encode()
