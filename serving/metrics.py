"""Counts and times of requests, in the text form that Prometheus reads."""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict

# Upper bounds of the histogram's buckets in microseconds, as in TF-Serving: each is 1.8 times the one before.
BOUNDS = [10.0 * 1.8**i for i in range(33)]


class Metrics:
    """Requests by model and status, and a histogram of their times by model and protocol."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._bins: dict[tuple[str, str, str], list[int]] = {}
        self._sums: dict[tuple[str, str, str], float] = defaultdict(float)

    def record(self, model: str, api: str, entry: str, status: str, seconds: float) -> None:
        """Counts one request.

        Args:
            model: name of the model; empty if there is no such model.
            api: the method, for example ``"Predict"``.
            entry: ``"GRPC"`` or ``"REST"``.
            status: name of the status code.
            seconds: how long it took.
        """
        micros = seconds * 1e6
        key = (model, api, entry)
        with self._lock:
            self._counts[model, status] += 1
            if key not in self._bins:
                self._bins[key] = [0] * (len(BOUNDS) + 1)
            self._bins[key][bisect.bisect_left(BOUNDS, micros)] += 1
            self._sums[key] += micros

    def text(self) -> str:
        """All metrics, for Prometheus."""
        lines = ["# TYPE :tensorflow:serving:request_count counter"]
        with self._lock:
            for (model, status), count in sorted(self._counts.items()):
                labels = f'model_name="{_escaped(model)}",status="{status}"'
                lines.append(f":tensorflow:serving:request_count{{{labels}}} {count}")
            lines.append("# TYPE :tensorflow:serving:request_latency histogram")
            for key, bins in sorted(self._bins.items()):
                model, api, entry = key
                labels = f'model_name="{_escaped(model)}",API="{api}",entrypoint="{entry}"'
                name = ":tensorflow:serving:request_latency"
                total = 0
                for bound, count in zip([f"{bound:g}" for bound in BOUNDS] + ["+Inf"], bins, strict=True):
                    total += count
                    lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
                lines += [f"{name}_sum{{{labels}}} {self._sums[key]:.10g}", f"{name}_count{{{labels}}} {total}"]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
