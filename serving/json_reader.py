"""Reads the JSON of large requests in small steps, into arrays.

Python's own parser reads a whole document in one step, in which no other thread runs, and makes an object of each
number: 32 bytes for what takes 4 in the tensor. Here one step reads at most 64 KB, and numbers go into arrays as they
are read.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

STEP = 2**16  # bytes that are read without letting another thread run
BLOCK, ARRAY = 1024, 128  # elements that are kept as Python's objects; bytes of an array beside its own elements
DEPTH = 64
KEPT = 100_000  # members and elements of lists at the same time: far larger in memory than as text
LONGEST_STRING = 2**20  # bytes
SHORT = 64  # numbers, which are no array of their own
_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # it never goes back, which would take memory
_WORD = re.compile(rb"[-+.0-9A-Za-z]{1,1000}")
_NUMBERS = re.compile(rb"[-+.0-9eE, \t\n\r]+")


class ParseError(ValueError):
    """What is wrong, and where."""


class Unusable:
    """Stands for an array that is no tensor of numbers.

    Attributes:
        ragged: its rows have different shapes; otherwise it holds something else than numbers.
        objects: some of its elements are objects.
    """

    def __init__(self, ragged: bool, objects: bool = False) -> None:
        self.ragged, self.objects = ragged, objects


class Column:
    """Values of equal shapes, one after the other, which become one array.

    Example:

    >>> column = Column()
    >>> for row in ([1, 2], [3, 4]):
    ...     column.append(np.array(row))
    >>> column.array().tolist()
    [[1, 2], [3, 4]]
    """

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._pending: list[Any] = []
        self._bytes = 0
        self._boolean: bool | None = None  # whether the values so far are
        self._unusable: Unusable | None = None

    def append(self, value: Any) -> None:
        """Adds a number, a Boolean, or an array of them. Anything else makes the whole column unusable."""
        if self._unusable is not None:
            return
        if isinstance(value, Unusable):
            self._end(Unusable(value.ragged))
        elif isinstance(value, np.ndarray):
            if value.size:
                self._is(value.dtype == bool)
            self._pending.append(value)
            self._bytes += ARRAY + value.nbytes
        elif isinstance(value, bool | int | float):
            self._is(isinstance(value, bool))
            self._pending.append(value)
        else:
            self._end(Unusable(ragged=False, objects=isinstance(value, dict)))
        if len(self._pending) >= BLOCK or self._bytes > STEP:
            self._flush()

    def extend(self, block: np.ndarray) -> None:
        """Adds numbers, as many as are read in one step."""
        self._is(boolean=False)
        if len(block) >= SHORT:
            self._flush()
            self._add(block)
        elif self._unusable is None:
            self._pending.extend(block.tolist())
            if len(self._pending) >= BLOCK:
                self._flush()

    def _is(self, boolean: bool) -> None:
        """Booleans and numbers make no array together."""
        if self._boolean is None:
            self._boolean = boolean
        elif self._boolean is not boolean:
            self._end(Unusable(ragged=False))

    def _end(self, unusable: Unusable) -> None:
        """From now on nothing is kept."""
        self._unusable = self._unusable or unusable
        self._blocks, self._pending, self._bytes = [], [], 0

    def _flush(self) -> None:
        pending, self._pending, self._bytes = self._pending, [], 0
        if not pending or self._unusable is not None:
            return
        try:
            self._add(np.asarray(pending))
        except (ValueError, OverflowError):
            self._end(Unusable(ragged=True))

    def _add(self, block: np.ndarray) -> None:
        if self._unusable is not None:
            return
        if block.dtype.kind not in "biuf":
            self._end(Unusable(ragged=False))  # integers of more than 64 bits
        elif self._blocks and self._blocks[0].shape[1:] != block.shape[1:]:
            self._end(Unusable(ragged=True))
        else:
            self._blocks.append(_compact(block))

    def array(self) -> np.ndarray | Unusable:
        """All values, stacked."""
        self._flush()
        if self._unusable is not None:
            return self._unusable
        if len(self._blocks) == 1:
            return self._blocks[0]
        return np.concatenate(self._blocks) if self._blocks else np.zeros(0)


def _compact(block: np.ndarray) -> np.ndarray:
    """Integers in a smaller type that holds them: zeros and ones take a byte each."""
    if block.dtype != np.int64 or not block.size:
        return block
    low, high = block.min(), block.max()
    # All of them together are still integers for NumPy, which has none for int64 and uint64.
    for dtype in (np.uint8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return block.astype(dtype)
    return block


class Reader:
    """One document.

    Args:
        body: its text.
        members: of the outermost object, those that are read by a function of their own, ``(reader) -> value``.
        check: is called between steps; what it raises ends the reading.
    """

    def __init__(
        self,
        body: bytes,
        members: dict[str, Callable[[Reader], Any]] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._body, self._at, self._depth, self._kept = body, 0, 0, 0
        self._members, self._check, self._checked, self._lists = members or {}, check, 0, False

    def document(self) -> Any:
        """The document: Python's values, with arrays of numbers as arrays.

        Raises:
            ParseError: if it is not JSON.

        Example:

        >>> Reader(b'{"a": [[1, 2], [3, 4]], "b": ["c"]}').document()["a"].shape
        (2, 2)
        """
        self._skip()
        value = self._object(self._members) if self.peek() == b"{" else self.value()
        self._skip()
        if self._at < len(self._body):
            raise self.error("The document root must not be followed by other values")
        return value

    def value(self) -> Any:
        """The next value."""
        self._skip()
        first = self.peek()
        if first == b"{":
            return self._object({})
        if first == b"[":
            return self._array()
        return self._scalar()

    def elements(self, take: Callable[[Any], None]) -> None:
        """Reads an array, and hands on its elements one by one, which are not kept here."""
        self._open(b"[")
        kept = self._kept
        if not self._closes(b"]"):
            while True:
                take(self.value())
                self._kept = kept
                if self._closes(b"]"):
                    break
                self._expect(b",")
        self._depth -= 1

    @contextlib.contextmanager
    def lists(self) -> Iterator[None]:
        """In the block, arrays of texts and objects are lists, and not `Unusable`."""
        self._lists = True
        try:
            yield
        finally:
            self._lists = False

    def lists_objects(self) -> bool:
        """Whether an array comes next whose first element is an object."""
        if self.peek() != b"[":
            return False
        match = _SPACE.match(self._body, self._at + 1)
        after = match.end() if match is not None else self._at + 1
        return self._body[after : after + 1] == b"{"

    def peek(self) -> bytes:
        """The next character that is not white space; empty at the end."""
        self._skip()
        return self._body[self._at : self._at + 1]

    def error(self, message: str) -> ParseError:
        return ParseError(f"{message} at offset: {self._at}")

    # Parts

    def _object(self, members: dict[str, Callable[[Reader], Any]]) -> dict[str, Any]:
        self._open(b"{")
        result: dict[str, Any] = {}
        if not self._closes(b"}"):
            while True:
                self._skip()
                name = self._string()
                self._expect(b":")
                self._skip()
                self._keep()
                result[name] = members[name](self) if name in members else self.value()
                if self._closes(b"}"):
                    break
                self._expect(b",")
        self._depth -= 1
        return result

    def _array(self) -> np.ndarray | Unusable | list[Any]:
        column, others = Column(), list[Any]()
        self._open(b"[")
        kept = self._kept
        if not self._closes(b"]"):
            while True:
                block = self._numbers()
                if block is not None:
                    column.extend(block)
                else:
                    value = self.value()
                    if self._lists and isinstance(value, str | dict):
                        others.append(value)
                        self._keep()
                        kept = self._kept
                    else:
                        column.append(value)
                        self._kept = kept  # the column has numbers alone
                if self._closes(b"]"):
                    break
                self._expect(b",")
        self._depth -= 1
        numbers = column.array()
        if not others:
            return numbers
        return others if isinstance(numbers, np.ndarray) and not numbers.size else Unusable(ragged=False)

    def _numbers(self) -> np.ndarray | None:
        """The numbers that come next, as many as there are in one step. Stops before a comma or a bracket."""
        self._skip()
        match = _NUMBERS.match(self._body, self._at, self._at + STEP)
        if match is None:
            return None
        end = match.end()
        if self._body[end : end + 1] != b"]":
            # The last number may be cut, or what follows is none: both are for the next step.
            end = self._body.rfind(b",", self._at, end)
            if end < 0:
                return None
        numbers = self._loads(b"[%b]" % self._body[self._at : end])
        self._at = end
        return np.asarray(numbers)

    def _scalar(self) -> Any:
        if self.peek() == b'"':
            return self._string()
        match = _WORD.match(self._body, self._at)
        if match is None:
            raise self.error("Invalid value")
        value = self._loads(match[0])
        self._at = match.end()
        return value

    def _string(self) -> str:
        match = _STRING.match(self._body, self._at, self._at + LONGEST_STRING)
        if match is None and self._at + LONGEST_STRING < len(self._body) and self.peek() == b'"':
            raise self.error(f"A text has more than {LONGEST_STRING} bytes")
        if match is None:
            raise self.error("Missing a string")
        text = self._loads(match[0])
        self._at = match.end()
        return text

    def _loads(self, text: bytes) -> Any:
        try:
            return json.loads(text.decode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise self.error(f"Invalid value ({str(error)[:200]})") from None

    def _keep(self) -> None:
        self._kept += 1  # one more object of Python's that stays in memory
        if self._kept > KEPT:
            raise self.error(f"More than {KEPT} members, texts and objects")

    # Single characters

    def _skip(self) -> None:
        match = _SPACE.match(self._body, self._at)
        self._at = match.end() if match is not None else self._at
        if self._at - self._checked > STEP:
            self._checked = self._at
            self._check()

    def _open(self, bracket: bytes) -> None:
        self._expect(bracket)
        self._depth += 1
        if self._depth > DEPTH:
            raise self.error(f"More than {DEPTH} brackets are open")

    def _closes(self, bracket: bytes) -> bool:
        if self.peek() != bracket:
            return False
        self._at += 1
        return True

    def _expect(self, character: bytes) -> None:
        if self.peek() != character:
            raise self.error(f"Missing a {character.decode()!r}")
        self._at += 1
