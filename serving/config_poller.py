"""Watches a ``--model_config_file``."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from serving import config_files
from serving.errors import ServingError
from serving.manager import ModelManager

log = logging.getLogger("serving")


class ConfigPoller:
    """Reads the file again and again, and applies it when it has changed.

    Args:
        path: the file.
        manager: has its models already.
        seconds: between two looks; 0 or less for none.
    """

    def __init__(self, path: str, manager: ModelManager, seconds: float) -> None:
        self._path, self._manager, self._seconds = Path(path), manager, seconds
        self._content = self._read()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)

    def start(self) -> None:
        if self._seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except OSError:
            return None

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            content = self._read()
            if content is None or content == self._content:
                continue
            self._content = content
            try:
                self._manager.apply(config_files.read_models(self._path), load=False)
            except (ValueError, ServingError) as error:
                log.error("The changed %s is not applied: %s", self._path, error)
                continue
            log.info("The models are those of the changed %s", self._path)
            try:
                self._manager.load_all()
            except ServingError as error:
                log.error("A model of the changed %s has no version that can be served: %s", self._path, error)
