"""Measurements in a file, one on a line: each setting is measured once, so that long benchmarks can be interrupted."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class RecordFile:
    """Records of one benchmark.

    Args:
        path: the file.
        run: measures one setting, which it takes as keyword arguments, and returns what was found.
    """

    def __init__(self, path: Path, run: Callable[..., dict[str, Any]]) -> None:
        self.path, self.run = path, run

    def read(self) -> list[dict[str, Any]]:
        """All records so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def record(self, **setting: Any) -> dict[str, Any]:
        """The record of a setting, from the file or by measuring it."""
        for each in self.read():
            if setting.items() <= each.items():
                return each
        circumstances = {"cores": os.cpu_count(), "date": datetime.date.today().isoformat()}
        found = {**setting, **self.run(**setting), **circumstances}
        with self.path.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)
        return found
