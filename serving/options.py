"""The server's flags: those of `tensorflow_model_server` that it supports, under the same names."""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from serving.admission import Limits
from serving.http_exchange import RestLimits

log = logging.getLogger("serving")


@dataclasses.dataclass
class Options:
    """The server's settings. A port of ``None`` or 0 is not opened; -1 stands for any free one."""

    port: int | None = 8500
    rest_api_port: int | None = 0
    model_name: str = "default"
    model_base_path: str = ""
    model_config_file: str = ""
    model_config_file_poll_wait_seconds: float = 0.0
    enable_batching: bool = False
    batching_parameters_file: str = ""
    file_system_poll_wait_seconds: float = 1.0
    ssl_config_file: str = ""
    monitoring_config_file: str = ""
    enable_grpc_healthcheck_service: bool = False
    grpc_socket_path: str = ""
    grpc_channel_arguments: str = ""
    rest_api_timeout_in_ms: int = 30_000
    rest_max_body_bytes: int = 2**25
    rest_allowed_hosts: str = ""
    access_log: bool = False
    reload_config_roots: str = ""
    reload_config_anywhere: bool = False
    enable_model_warmup: bool = True
    enable_signature_method_name_check: bool = False
    host: str = "127.0.0.1"
    max_running: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    max_waiting: int = 64
    max_row_steps: int = Limits.max_row_steps
    max_row_steps_in_flight: int = Limits.max_row_steps_in_flight
    max_bytes_in_flight: int = Limits.max_bytes_in_flight
    default_deadline_seconds: float = Limits.default_deadline_seconds
    max_deadline_seconds: float = Limits.max_deadline_seconds
    shutdown_grace_seconds: float = 30.0
    engine: str = "embedded"


HELP = {
    "port": "TCP port for gRPC; 0 for none, -1 for any free one.",
    "rest_api_port": "TCP port for REST and the web page; 0 for none, -1 for any free one.",
    "model_name": "Name that clients ask for, if there is no model_config_file.",
    "model_base_path": "Folder with the model's versions, BASE/1, BASE/2 and so on, as `wcd export` writes them.",
    "model_config_file": "Text file of a ModelServerConfig: several models, version policies, labels.",
    "model_config_file_poll_wait_seconds": "Seconds between two readings of the model_config_file; 0 for one.",
    "enable_batching": "Join requests that wait at the same time into one batch.",
    "batching_parameters_file": "Text file of BatchingParameters, as serving/deploy/batching.config.",
    "file_system_poll_wait_seconds": "Seconds between two polls for new versions; 0 for one poll, at the start.",
    "ssl_config_file": "Text file of an SSLConfig: then gRPC is encrypted.",
    "monitoring_config_file": "Text file of a MonitoringConfig: metrics for Prometheus.",
    "enable_grpc_healthcheck_service": "Offer gRPC's health service.",
    "grpc_socket_path": "Unix socket for gRPC, beside the port.",
    "grpc_channel_arguments": "Comma-separated key=value arguments of the gRPC server.",
    "rest_api_timeout_in_ms": "Longest time of a REST request.",
    "rest_max_body_bytes": "Largest body of a REST request, if the models can need one as large as that.",
    "rest_allowed_hosts": "Comma-separated names of this server, beside its addresses and localhost, and of sites "
    "whose pages may use it; * for any.",
    "access_log": "Log each request: who asked for what, the status and the time.",
    "enable_model_warmup": "Run a model's warm-up requests before it answers.",
    "enable_signature_method_name_check": "Signatures answer Classify and Regress only if their method_name says so; "
    "exports of TensorFlow 2 never say it.",
    "host": "Address to listen on; 0.0.0.0 for other machines to reach it.",
    "max_running": "Computations at the same time, if there is no batching.",
    "max_waiting": "Requests that may wait for their turn; more are refused with RESOURCE_EXHAUSTED.",
    "reload_config_roots": "Comma-separated folders below which HandleReloadConfigRequest may load models; it is "
    "refused without this flag and the next.",
    "reload_config_anywhere": "HandleReloadConfigRequest may load any folder, as with TF-Serving. For trusted "
    "clients only.",
    "max_row_steps": "Rows times Gibbs steps of one request.",
    "max_row_steps_in_flight": "Rows times Gibbs steps of all requests at hand; more are refused with "
    "RESOURCE_EXHAUSTED.",
    "max_bytes_in_flight": "Bytes of all requests at hand, their tensors and answers; more are refused with "
    "RESOURCE_EXHAUSTED.",
    "default_deadline_seconds": "Time for a request that sets no deadline.",
    "max_deadline_seconds": "The longest time that any request gets.",
    "shutdown_grace_seconds": "Longest time to finish what was accepted, after SIGTERM.",
    "engine": "embedded, or tensorflow_model_server to run that program with the same flags.",
}
# Those that `tensorflow_model_server` does not have.
OWN = (
    "host",
    "max_running",
    "max_waiting",
    "max_row_steps",
    "max_row_steps_in_flight",
    "max_bytes_in_flight",
    "default_deadline_seconds",
    "max_deadline_seconds",
    "shutdown_grace_seconds",
    "engine",
    "rest_max_body_bytes",
    "rest_allowed_hosts",
    "access_log",
    "reload_config_roots",
    "reload_config_anywhere",
)


def parse(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """The options, and the flags that are not known, of which deployment scripts pass many."""
    parser = argparse.ArgumentParser(
        prog="wcd serve",
        usage="wcd serve --model_name=NAME --model_base_path=FOLDER [flags]",
        description="Serves models over TF-Serving's protocol. Flags that it does not know are ignored with a warning.",
        epilog="""examples:
  wcd serve --model_name=rbm --model_base_path=models/rbm --port=8500 --rest_api_port=8501
  wcd serve --model_config_file=models.config --enable_batching --batching_parameters_file=batching.config""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    defaults = Options()
    for field in dataclasses.fields(Options):
        default = getattr(defaults, field.name)
        if isinstance(default, bool):
            parser.add_argument(
                f"--{field.name}",
                type=_boolean,
                nargs="?",
                const=True,
                default=default,
                help=f"{HELP[field.name]} (default: {str(default).lower()})",
            )
        else:
            parser.add_argument(
                f"--{field.name}",
                type=type(default),
                default=default,
                help=f"{HELP[field.name]} (default: {default!r})",
            )
    known, unknown = parser.parse_known_args(list(arguments))
    options = Options(**vars(known))
    if options.engine not in ("embedded", "tensorflow_model_server"):
        parser.error(f"--engine must be embedded or tensorflow_model_server. Received: {options.engine}")
    if options.max_running < 1 or options.max_waiting < 0:
        parser.error(
            "--max_running must be at least 1, and --max_waiting at least 0. "
            f"Received: {options.max_running} and {options.max_waiting}"
        )
    if bool(options.model_base_path) == bool(options.model_config_file):
        given = "neither" if not options.model_base_path else "both"
        parser.error(f"Exactly one of --model_base_path and --model_config_file is needed. Received: {given}")
    return options, unknown


def model_server_arguments(arguments: Sequence[str]) -> list[str]:
    """The flags for `tensorflow_model_server`: those that it has, with an absolute base path, which it needs."""
    passed = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
            continue
        name = argument.lstrip("-").partition("=")[0]
        if name in OWN:
            skip = "=" not in argument
            continue
        flag, equals, value = argument.partition("=")
        if name == "model_base_path" and equals and "://" not in value:
            argument = f"{flag}={Path(value).absolute()}"
        passed.append(argument)
    return passed


def rest_limits(options: Options) -> RestLimits:
    """What REST clients may use."""
    named = {name.strip().lower() for name in options.rest_allowed_hosts.split(",")}
    return RestLimits(
        timeout=options.rest_api_timeout_in_ms * 1e-3,
        max_body=options.rest_max_body_bytes,
        max_bytes=options.max_bytes_in_flight // 8,
        threads=options.max_running + options.max_waiting,
        hosts=frozenset(named - {""}),
        own_hosts=frozenset({options.host.lower()}),
        access_log=options.access_log,
    )


def reload_roots(options: Options) -> list[Path] | None:
    """Below which folders clients may have models loaded; ``None`` for anywhere."""
    if options.reload_config_anywhere:
        return None
    return [Path(root) for root in filter(None, map(str.strip, options.reload_config_roots.split(",")))]


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server on this address.

    Example:

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(host: str, port: int) -> str:
    """Where a browser on this machine finds the page.

    Example:

    >>> url_of("0.0.0.0", 8501)
    'http://localhost:8501/'
    """
    name = "localhost" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def channel_arguments(text: str) -> list[tuple[str, int | str]]:
    """``a=1,b=text`` as gRPC's options."""
    pairs: list[tuple[str, int | str]] = []
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"--grpc_channel_arguments must be key=value pairs. Received: {part!r}")
        pairs.append((key, int(value) if value.lstrip("-").isdigit() else value))
    return pairs


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"must be true or false. Received: {text}")
