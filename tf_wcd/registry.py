"""Things that users ask for by name: unit types, negative phases, data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


def origin(thing: object) -> str:
    """Module and name of a class or function; other things are told apart by their type.

    Example:

    >>> origin(Registry), origin(Registry("shape"))
    ('tf_wcd.registry.Registry', 'tf_wcd.registry.Registry')
    """
    owner = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{owner.__module__}.{owner.__qualname__}"


class Registry(Mapping[str, Thing], Generic[Thing]):
    """A table of named things, to which anybody may add.

    Args:
        argument: the argument that takes such a name, for messages.
        origin_of: where a thing comes from, if it is neither a class nor a function.

    Example:

    >>> shapes = Registry("shape")
    >>> shapes.register("square", 4)
    >>> shapes["square"]
    4
    >>> shapes["circle"]
    Traceback (most recent call last):
    ValueError: `shape` must be one of ['square']. Received: 'circle'
    """

    def __init__(self, argument: str, origin_of: Callable[[Thing], str] = origin) -> None:
        self._argument = argument
        self._origin_of = origin_of
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
        if before is not None and self._origin_of(before) != self._origin_of(thing):
            raise ValueError(
                f"The name is taken, by {self._origin_of(before)}. Received: {name!r} for {self._origin_of(thing)}"
            )
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
