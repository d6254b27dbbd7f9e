"""Which models and versions are served: watches folders, loads new versions, then unloads old ones."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
from tensorflow_serving.apis import get_model_status_pb2, model_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving import version_files
from serving.cancellation import Cancellation
from serving.errors import MAX_MESSAGE, ServingError, invalid, not_found, status_of
from serving.publish import folder_of
from serving.servable import Servable
from serving.served_models import Model, VersionStatus, asked_version

State = get_model_status_pb2.ModelVersionStatus
RETRY_SECONDS = 60.0  # as TF-Serving, before a version that did not load is tried again
REMEMBERED = 100  # ended versions of a model that its status still lists

log = logging.getLogger("serving")


class ModelManager:
    """All models of a server.

    Args:
        config: the models, as in a ``--model_config_file``.
        poll_seconds: seconds between two polls of the folders; 0 or less to read them only once, at the start.
        warmup: run warm-up requests.
        reload_roots: folders below which a client may have other models loaded; ``None`` for anywhere, empty for not at
            all.
    """

    def __init__(
        self,
        config: model_server_config_pb2.ModelServerConfig,
        poll_seconds: float = 1.0,
        warmup: bool = True,
        reload_roots: Sequence[Path] | None = (),
    ) -> None:
        self._warmup, self._reload_roots = warmup, reload_roots
        self._models: dict[str, Model] = {}
        self._lock = threading.Lock()  # guards the tables; held only briefly
        self._reconciling = threading.Lock()  # one thread at a time reads folders and loads
        self._stop = threading.Event()
        self._loading = Cancellation()
        self._poll_seconds = poll_seconds
        self.apply(config, load=False)
        self._poller = threading.Thread(target=self._poll, name="versions", daemon=True)

    # Start and stop

    def start(self) -> None:
        """Loads the versions in the folders, then watches the folders."""
        self.reconcile()
        if self._poll_seconds > 0:
            self._poller.start()

    def interrupt(self) -> None:
        """Loads no further versions, and gives up the one that is being loaded as soon as it can."""
        self._stop.set()
        self._loading.cancel()

    def stop(self) -> None:
        """Stops watching, and unloads everything."""
        self._stop.set()
        if self._poller.is_alive():
            self._poller.join(timeout=30)
        with self._lock:
            servables = [servable for model in self._models.values() for servable in model.servables.values()]
            for model in self._models.values():
                model.servables = {}
        for servable in servables:
            servable.close_when_unused(timeout=30)

    def _poll(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            try:
                self.reconcile()
            except Exception:
                log.exception("Looking for versions failed")

    # Configuration

    def reload(self, config: model_server_config_pb2.ModelServerConfig) -> None:
        """`apply` for a client, as far as the operator allows it.

        Raises:
            ServingError: PERMISSION_DENIED if that is not at all.
        """
        if self._reload_roots is not None and not self._reload_roots:
            raise ServingError(
                grpc.StatusCode.PERMISSION_DENIED,
                "Clients may not change the models of this server: --reload_config_roots or "
                "--reload_config_anywhere allows it",
            )
        self.apply(config, roots=self._reload_roots)

    def apply(
        self,
        config: model_server_config_pb2.ModelServerConfig,
        load: bool = True,
        roots: Sequence[Path] | None = None,
    ) -> None:
        """Replaces the whole list of models.

        Args:
            config: the list.
            load: load the models before returning.
            roots: folders that all files of the models must be in; ``None`` for anywhere.

        Raises:
            ServingError: INVALID_ARGUMENT if the configuration is invalid; then nothing is changed. The status of the
                failed load if a model has no version that can be served.
        """
        if config.WhichOneof("config") == "custom_model_config":
            raise invalid("A custom_model_config is not supported: use a model_config_list")
        configs = list(config.model_config_list.config)
        names = [entry.name for entry in configs]
        if not all(names) or not all(entry.base_path for entry in configs):
            raise invalid("Every model of the configuration must have a name and a base_path")
        if len(set(names)) < len(names):
            raise invalid(
                f"Illegal to list a model more than once: {sorted(n for n in set(names) if names.count(n) > 1)}"
            )
        for entry in configs:
            if roots is not None and not version_files.is_below(entry.base_path, roots):
                text = f"The base_path of a model must be below the server's roots. Received: {entry.base_path!r}"
                raise ServingError(grpc.StatusCode.PERMISSION_DENIED, text)
            if entry.model_platform not in ("", "tensorflow"):
                raise invalid(f"The platform of a model must be 'tensorflow'. Received: {entry.model_platform!r}")
        with self._reconciling:
            self._check_labels(configs)
            with self._lock:
                old, self._models = self._models, {}
                for entry in configs:
                    model = old.pop(entry.name, None) or Model(entry)
                    model.config, model.roots = entry, roots
                    self._models[entry.name] = model
            for model in old.values():
                for version in list(model.servables):
                    self._unload(model, version)
        if load:
            self.load_all()

    def load_all(self) -> None:
        """Loads the versions that the policies select.

        Raises:
            ServingError: the status of the failed load if a model has no version that can be served.
        """
        self.reconcile()
        with self._lock:
            bad = [s for m in self._models.values() if not m.servables for s in m.status.values() if s.code]
        if bad:
            raise ServingError(status_of(bad[-1].code), bad[-1].message)

    def _check_labels(self, configs: list[model_server_config_pb2.ModelConfig]) -> None:
        """Labels are for available versions; those of a model without any available version may be for any."""
        for entry in configs:
            model = self._models.get(entry.name)
            for label, version in entry.version_labels.items():
                if model is not None and model.servables and version not in model.servables:
                    raise ServingError(
                        grpc.StatusCode.FAILED_PRECONDITION,
                        f"Request to assign label {label} to version {version} of model {entry.name}, "
                        "which is not currently available for inference",
                    )

    # Versions

    def reconcile(self) -> None:
        """Loads the versions that the policy selects, and unloads those that it no longer selects."""
        with self._reconciling:
            with self._lock:
                models = list(self._models.values())
            for model in models:
                wanted = model.aspired()
                for version in wanted:
                    if self._stop.is_set():
                        return
                    self._load(model, version)
                if not model.servables:
                    for version in model.fallbacks():
                        if self._stop.is_set() or self._load(model, version):
                            break
                # Old versions are unloaded only when a new one can answer.
                if any(version in model.servables for version in wanted):
                    for version in [version for version in model.servables if version not in wanted]:
                        self._unload(model, version)

    def _load(self, model: Model, version: int) -> bool:
        """Loads a version; whether it is loaded now.

        One that has failed is tried again as soon as its files change, and after a minute.
        """
        name, base = model.config.name, model.config.base_path
        before = model.servables.get(version)
        if before is not None and before.path.parent == Path(base):  # it may have moved
            return True
        path = Path(base) / folder_of(base, version)
        files: version_files.State | None = None
        status = model.status.get(version)
        try:
            files = version_files.state_of(path)
            if status is not None and status.failed_at is not None and files == status.files:
                if time.monotonic() < status.failed_at + RETRY_SECONDS:
                    return False
            else:
                log.info("Loading version %d of %s", version, name)
            self._set(model, version, VersionStatus(State.LOADING))
            version_files.check_version(path, model.roots)
            servable = Servable(name, version, path, self._warmup, self._loading)
            if version_files.state_of(path) != files:
                servable.close_when_unused(0)
                raise version_files.incomplete(f"The files of {path} changed while they were loaded")
        except Exception as error:
            code, message = getattr(error, "code", grpc.StatusCode.UNKNOWN), getattr(error, "message", repr(error))
            number = code if isinstance(code, int) else code.value[0]
            log.error("Version %d of %s cannot be loaded: %s", version, name, message)
            failed = VersionStatus(State.END, number, message[:MAX_MESSAGE], time.monotonic(), files)
            self._set(model, version, failed)
            return False
        with self._lock:
            model.servables[version] = servable
        if before is not None:
            threading.Thread(target=before.close_when_unused, name="unload", daemon=True).start()
        self._set(model, version, VersionStatus(State.AVAILABLE))
        log.info("Version %d of %s is available", version, name)
        return True

    def _unload(self, model: Model, version: int) -> None:
        """Takes a version out of service immediately, and frees its memory when its last request is answered."""
        with self._lock:
            servable = model.servables.pop(version)
        unloading = VersionStatus(State.UNLOADING)
        self._set(model, version, unloading)

        def close() -> None:
            if servable.close_when_unused():
                # The version may have been loaded again meanwhile.
                self._set(model, version, VersionStatus(State.END), instead_of=unloading)
                log.info("Version %d of %s is unloaded", version, servable.name)

        threading.Thread(target=close, name="unload", daemon=True).start()

    def _set(self, model: Model, version: int, status: VersionStatus, instead_of: VersionStatus | None = None) -> None:
        """Sets the status of a version; with ``instead_of``, only if that is still its status."""
        with self._lock:
            if instead_of is not None and model.status.get(version) is not instead_of:
                return
            model.status[version] = status
            over = sorted(v for v, s in model.status.items() if s.state == State.END)
            for old in over[:-REMEMBERED]:
                del model.status[old]

    # Requests

    @contextlib.contextmanager
    def lease(self, spec: model_pb2.ModelSpec) -> Iterator[Servable]:
        """The version that a request asks for. It stays in memory inside the block."""
        with self._lock:
            servable = self._find(spec)
            servable.acquire()
        try:
            yield servable
        finally:
            servable.release()

    def _find(self, spec: model_pb2.ModelSpec) -> Servable:
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        model = self._models.get(spec.name)
        version = asked_version(spec, model)
        if version is None:
            if model is None or not model.servables:
                raise not_found(f"Servable not found for request: Latest({spec.name})")
            return model.servables[max(model.servables)]
        if model is None or version not in model.servables:
            raise not_found(f"Servable not found for request: Specific({spec.name}, {version})")
        return model.servables[version]

    def status(self, spec: model_pb2.ModelSpec) -> list[tuple[int, VersionStatus]]:
        """Versions of a model and their states, newest first."""
        with self._lock:
            model = self._models.get(spec.name)
            version = asked_version(spec, model)
            if version is None:
                if model is None or not model.status:
                    raise not_found(f"Could not find any versions of model {spec.name}")
                return sorted(model.status.items(), reverse=True)
            if model is None or version not in model.status:
                raise not_found(f"Could not find version {version} of model {spec.name}")
            return [(version, model.status[version])]

    def names(self) -> list[str]:
        """Names of the models."""
        with self._lock:
            return list(self._models)

    def missing(self) -> list[str]:
        """Names of the models without an available version."""
        with self._lock:
            return [name for name, model in self._models.items() if not model.servables]

    def why_missing(self, name: str) -> str:
        """Why a model has no version yet."""
        with self._lock:
            base = Path(self._models[name].config.base_path)
            errors = [status.message for status in self._models[name].status.values() if status.code]
        if errors:
            return f"{name} cannot be loaded yet ({errors[-1]})"
        if not base.exists():
            return f"{name} has no folder {base} yet"
        if (base / "saved_model.pb").exists():
            return f"{base} is itself a version of {name}; the base path is the folder above it, {base.parent}"
        if not base.is_dir():
            return f"{base} is a file; the base path of {name} is a folder of versions, as `wcd export` writes it"
        return f"{name} has no version in {base} yet (folders {base / '1'}, {base / '2'} and so on)"

    def failures(self) -> dict[str, str]:
        """Errors of the models without an available version, but for files that may still be on their way."""
        with self._lock:
            return {
                name: status.message
                for name, model in self._models.items()
                if not model.servables
                for status in model.status.values()
                if status.code not in (0, grpc.StatusCode.UNAVAILABLE.value[0])
            }
