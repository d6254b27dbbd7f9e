"""The settings of dynamic batching."""

from __future__ import annotations

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """Settings, by their names in a ``--batching_parameters_file``.

    A batch has at most ``max_batch_size`` rows, and so has a request. With ``enable_large_batch_splitting`` a request
    may have more rows than a batch: it is split, and a batch has at most ``max_execution_batch_size`` rows.

    ``batch_timeout_micros`` is the longest wait for clients who were answered by the batch before, and may ask again
    immediately. There is no wait where nobody else has asked of late, and none above half of the time that the
    batch before has taken.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 0  # 0 for max_batch_size

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise ValueError(f"batch_timeout_micros must not be negative. Received: {self.batch_timeout_micros}")
        if not 0 <= self.max_execution_batch_size <= self.max_batch_size:
            raise ValueError(
                f"max_execution_batch_size must be from 1 to max_batch_size, {self.max_batch_size}. "
                f"Received: {self.max_execution_batch_size}"
            )
        sizes = self.allowed_batch_sizes
        if sizes and (list(sizes) != sorted(set(sizes)) or sizes[-1] != self.batch_rows or sizes[0] < 1):
            raise ValueError(
                "allowed_batch_sizes must increase and end with the size of the largest batch. "
                f"Received: {list(sizes)} for batches of up to {self.batch_rows} rows"
            )

    @property
    def batch_rows(self) -> int:
        """The largest number of rows of a batch."""
        return (self.enable_large_batch_splitting and self.max_execution_batch_size) or self.max_batch_size

    def padded(self, rows: int) -> int:
        """The number of rows after padding to the next allowed size."""
        return next((size for size in self.allowed_batch_sizes if size >= rows), rows)
