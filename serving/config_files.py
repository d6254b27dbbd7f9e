"""The text files that `tensorflow_model_server`'s flags name.

The messages for models come with TF-Serving's API; those for batching, TLS and monitoring do not, so their few fields
are described here.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.batching_parameters import BatchingParameters

_FIELD = descriptor_pb2.FieldDescriptorProto
_WRAPPED = {
    "Int64": (
        "max_batch_size",
        "batch_timeout_micros",
        "max_enqueued_batches",
        "num_batch_threads",
        "max_execution_batch_size",
    ),
    "String": ("thread_pool_name",),
    "Bool": ("enable_large_batch_splitting",),
}


@functools.cache
def _messages() -> dict[str, Any]:
    """Message types by name, with the fields that TF-Serving's have."""
    file = descriptor_pb2.FileDescriptorProto(
        name="serving/config_files.proto", package="serving_files", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)

    def add(message: Any, name: str, kind: int, type_name: str = "", repeated: bool = False) -> None:
        label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
        message.field.add(name=name, number=len(message.field) + 1, type=kind, label=label, type_name=type_name or None)

    batching = file.message_type.add(name="BatchingParameters")
    for kind, names in _WRAPPED.items():
        for name in names:
            add(batching, name, _FIELD.TYPE_MESSAGE, f".google.protobuf.{kind}Value")
    add(batching, "allowed_batch_sizes", _FIELD.TYPE_INT64, repeated=True)
    add(batching, "pad_variable_length_inputs", _FIELD.TYPE_BOOL)
    tls = file.message_type.add(name="SSLConfig")
    for name in ("server_key", "server_cert", "custom_ca"):
        add(tls, name, _FIELD.TYPE_STRING)
    add(tls, "client_verify", _FIELD.TYPE_BOOL)
    prometheus = file.message_type.add(name="PrometheusConfig")
    add(prometheus, "enable", _FIELD.TYPE_BOOL)
    add(prometheus, "path", _FIELD.TYPE_STRING)
    monitoring = file.message_type.add(name="MonitoringConfig")
    add(monitoring, "prometheus_config", _FIELD.TYPE_MESSAGE, ".serving_files.PrometheusConfig")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    names = ("BatchingParameters", "SSLConfig", "MonitoringConfig")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"serving_files.{name}")) for name in names
    }


def _parsed(path: str | Path, message: Any) -> Any:
    try:
        return text_format.Parse(Path(path).read_text(), message)
    except text_format.ParseError as error:
        # As TF-Serving says it, whose messages these are.
        name = f"tensorflow.serving.{type(message).__name__}"
        raise ValueError(f"{path} cannot be read: Error parsing text-format {name}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def read_models(path: str | Path) -> model_server_config_pb2.ModelServerConfig:
    """A ``--model_config_file``."""
    return _parsed(path, model_server_config_pb2.ModelServerConfig())


def read_batching(path: str | Path) -> BatchingParameters:
    """A ``--batching_parameters_file``."""
    message = _parsed(path, _messages()["BatchingParameters"]())
    names = (*_WRAPPED["Int64"], *_WRAPPED["Bool"])
    given = {name: getattr(message, name).value for name in names if message.HasField(name)}
    return BatchingParameters(**given, allowed_batch_sizes=tuple(message.allowed_batch_sizes))


def read_tls(path: str | Path) -> tuple[bytes, bytes, bytes | None, bool]:
    """An ``--ssl_config_file``: key, certificate, authority of clients' certificates, and whether clients need one."""
    message = _parsed(path, _messages()["SSLConfig"]())
    given = [name for name in ("server_key", "server_cert") if getattr(message, name)]
    if len(given) < 2:
        raise ValueError(f"{path} must have a server_key and a server_cert. Received: {given or 'neither'}")
    authority = message.custom_ca.encode() or None
    return message.server_key.encode(), message.server_cert.encode(), authority, message.client_verify


def read_monitoring(path: str | Path) -> str | None:
    """A ``--monitoring_config_file``: the path of the metrics for Prometheus; ``None`` if they are off."""
    config = _parsed(path, _messages()["MonitoringConfig"]()).prometheus_config
    return (config.path or "/monitoring/prometheus/metrics") if config.enable else None


def one_model(name: str, base_path: str) -> model_server_config_pb2.ModelServerConfig:
    """The configuration of ``--model_name`` and ``--model_base_path``."""
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=base_path, model_platform="tensorflow")
    return config
