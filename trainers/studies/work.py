"""What `wcd reproduce` is asked to do: a value that every study takes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.grids import Rule
from trainers.settings.protocol import PAPER, Protocol
from trainers.store.sharing import Searcher

if TYPE_CHECKING:
    from trainers.runs.resumable import Plan


@dataclasses.dataclass(frozen=True)
class Work:
    """What to work on, and how.

    Attributes:
        folder: where results go; finished runs there are not run again.
        problems: small problems.
        methods: columns of the table.
        protocol: lengths, numbers and grids.
        full: the paper's whole grid instead of successive halving.
        tuner: let KerasTuner run the selection.
        searcher: this process in a search that several share.
        minutes: begin no further piece of work after so long; 0 for no limit.
        checkpoint_epochs: epochs from one checkpoint to the next; 0 for one a minute.
        verbose: whether there are progress lines.
    """

    folder: Path
    problems: tuple[str, ...] = paper.PROBLEMS
    methods: tuple[str, ...] = tuple(COLUMNS)
    protocol: Protocol = PAPER
    full: bool = False
    tuner: bool = False
    searcher: Searcher = dataclasses.field(default_factory=Searcher)
    minutes: float = 0.0
    checkpoint_epochs: int = 0
    verbose: bool = True

    @property
    def small(self) -> Path:
        """Folder of the small problems."""
        return self.folder / "small"

    @property
    def large(self) -> Path:
        """Folder of the image sets."""
        return self.folder / "large"

    def rule(self, method: paper.Method) -> Rule:
        """How parameters of a method are chosen."""
        selection = self.protocol.selection
        return selection.full[method.name] if self.full else selection.rule

    def plan(self) -> Plan:
        """How runs are kept."""
        from trainers.runs.resumable import Plan  # needs TensorFlow

        return Plan(checkpoint_epochs=self.checkpoint_epochs)
