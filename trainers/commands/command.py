"""What a command is, and flags that several have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from absl import flags

FLAGS = flags.FLAGS

# An exit code, or what a command has found, for `--json`.
Outcome = int | dict[str, Any]


class Command(NamedTuple):
    """A command of ``wcd``.

    Attributes:
        name: of one word or two.
        text: what it does.
        define_flags: defines its flags.
        run: does it, when the flags have been read.
        examples: as they are typed.
        draws: it makes pictures, for which Matplotlib has to be there.
        resumable: it keeps its work as it goes, in ``--out``, and the same command goes on where it was.
    """

    name: str
    text: str
    define_flags: Callable[[], None]
    run: Callable[[], Outcome]
    examples: tuple[str, ...]
    draws: bool = False
    resumable: bool = False


class PlainCommand(NamedTuple):
    """A command that reads its arguments itself, and returns an exit code."""

    name: str
    text: str
    run: Callable[[Sequence[str]], int]


def list_flag(name: str, default: Sequence[str], choices: Sequence[str], text: str) -> None:
    """A flag for some of the choices, separated by commas."""
    flags.DEFINE_list(name, ",".join(default), text)
    flags.register_validator(
        name, lambda given: set(given) <= set(choices), f"must be some of {', '.join(choices)}, separated by commas"
    )


def without_extra(name: str, error: ModuleNotFoundError) -> int:
    """Exit code of a command whose packages are not installed; it says how to get them."""
    from tf_wcd import extras  # imports TensorFlow

    module = (error.name or "").partition(".")[0]
    if module not in extras.PACKAGES:
        raise error
    print(extras.message(f"wcd {name}", module), file=sys.stderr)
    return 1


def check_drawing(command: str) -> None:
    """Raises ModuleNotFoundError if a command would not be able to draw: before it works for an hour, not after."""
    from tf_wcd import extras

    extras.need(f"wcd {command}", "matplotlib")
