"""The data sets by name, those of the library and those that users register."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from tf_wcd.datasets.caltech101_silhouettes import CALTECH101_SILHOUETTES
from tf_wcd.datasets.image_sets import ImageSet
from tf_wcd.datasets.keras_images import FASHION_MNIST, MNIST
from tf_wcd.datasets.ocr_letters import OCR_LETTERS
from tf_wcd.datasets.small import PROBLEMS, Problem
from tf_wcd.registry import Registry, origin

Source = Callable[[], Problem] | ImageSet
SourceOfKind = TypeVar("SourceOfKind")

KINDS = ("small", "images")


def _origin(source: Source) -> str:
    """Where a source comes from; for a set of images, the function that reads it."""
    return origin(source.read if isinstance(source, ImageSet) else source)


SOURCES: Registry[Source] = Registry("name", _origin)


def register(name: str, source: Source) -> None:
    """Adds a data set under a name, for `load`.

    Args:
        name: what users write in `load`.
        source: for a small problem, a function without arguments that returns ``(states, probabilities)``. For images,
            an `ImageSet` of the same name.

    Raises:
        ValueError: if another data set has the name already. Code that is run again, as in a notebook, replaces what it
            has registered before.

    Example:

    >>> register("TwoStates", lambda: (np.eye(2, dtype="float32"), np.array([0.25, 0.75])))
    >>> tf_wcd.datasets.load("TwoStates")[1].tolist()
    [0.25, 0.75]
    """
    if isinstance(source, ImageSet):
        if source.name != name:
            raise ValueError(f"An `ImageSet` is registered by its name, {source.name!r}. Received: name={name!r}")
    elif not callable(source):
        raise ValueError(f"`source` must be a function or an `ImageSet`. Received: source={source!r}")
    SOURCES.register(name, source)


def names(kind: str | None = None) -> list[str]:
    """Names of the data sets, in the order in which they were registered.

    Args:
        kind: ``"small"`` for the small problems, ``"images"`` for the sets of images; both if not given.

    Example:

    >>> names("images")[:2]
    ['mnist', 'fashion_mnist']
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"`kind` must be one of {[*KINDS, None]}. Received: kind={kind!r}")
    return [name for name, source in SOURCES.items() if kind is None or _kind(source) == kind]


def _kind(source: Source) -> str:
    return "images" if isinstance(source, ImageSet) else "small"


class _View(Mapping[str, SourceOfKind], Generic[SourceOfKind]):
    """The registered sources of one kind. It cannot be changed: `register` adds to it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getitem__(self, name: str) -> SourceOfKind:
        if name not in names(self._kind):
            raise KeyError(name)
        return cast(SourceOfKind, SOURCES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(names(self._kind))

    def __len__(self) -> int:
        return len(names(self._kind))


for _name, _problem in PROBLEMS.items():
    register(_name, _problem)
for _images in (MNIST, FASHION_MNIST, CALTECH101_SILHOUETTES, OCR_LETTERS):
    register(_images.name, _images)

SMALL: Mapping[str, Callable[[], Problem]] = _View("small")
IMAGES: Mapping[str, ImageSet] = _View("images")
