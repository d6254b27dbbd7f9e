"""Things that users ask for by name: unit types, negative phases, data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Registry(Mapping[str, Thing], Generic[Thing]):
    """A table of named things, to which anybody may add.

    Args:
        argument: the argument that takes such a name, for messages.

    Example:

    >>> shapes = Registry("shape")
    >>> shapes.register("square", 4)
    >>> shapes["square"]
    4
    >>> shapes["circle"]
    Traceback (most recent call last):
    ValueError: `shape` must be one of ['square']. Received: 'circle'
    """

    def __init__(self, argument: str) -> None:
        self._argument = argument
        self._things: dict[str, Thing] = {}

    def register(self, name: str, thing: Thing) -> None:
        """Adds a thing under a name.

        Raises:
            ValueError: if another thing has the name already. The same code may be run again, as notebooks do: what
                comes from the same place as before replaces it.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"A name must be a string that is not empty. Received: {name!r}")
        before = self._things.get(name)
        if before is not None and _origin(before) != _origin(thing):
            raise ValueError(f"The name is taken, by {_origin(before)}. Received: {name!r} for {_origin(thing)}")
        self._things[name] = thing

    def unregister(self, name: str) -> None:
        """Removes a name."""
        del self._things[name]

    def __getitem__(self, name: str) -> Thing:
        if name not in self._things:
            raise ValueError(f"`{self._argument}` must be one of {sorted(self._things)}. Received: {name!r}")
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)


def _origin(thing: object) -> str:
    """Module and name of a class or function; other things are told apart by their type."""
    owner = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{owner.__module__}.{owner.__qualname__}"
