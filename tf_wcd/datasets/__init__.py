"""Data sets: the paper's small problems, whose distributions are known exactly, and its four sets of images."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tf_wcd.arguments import check_integer
from tf_wcd.datasets.grey_levels import METHODS, binarize
from tf_wcd.datasets.image_sets import ImageSet
from tf_wcd.datasets.local_copies import folder_of_copies, read_copy
from tf_wcd.datasets.sources import IMAGES as IMAGES
from tf_wcd.datasets.sources import SMALL as SMALL
from tf_wcd.datasets.sources import SOURCES, names, register

__all__ = ["ImageSet", "binarize", "load", "names", "register"]


def load(
    name: str,
    binarize: str | None = "probabilities",
    validation: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int | None = None,
) -> tuple[Any, ...]:
    """Loads a data set.

    Small problems: ``"BS09"``, ``"BS16"``, ``"LSE11"``, ``"LSE15"``, ``"P08"``, ``"P10"``, ``"Int12"``, ``"Mult3G"``,
    ``"Mult3D"``. They are computed, not read, and take no options.

    Images: ``"mnist"``, ``"fashion_mnist"``, ``"caltech101_silhouettes"`` and ``"ocr_letters"``. They are downloaded
    from where they are published the first time, kept in Keras' cache, and checked against checksums every time.

    Args:
        name: one of the names above, or one that was registered with `register`.
        binarize: how grey levels are converted: ``"probabilities"`` for numbers in [0, 1]; ``"threshold"`` for 1 in the
            upper half of the range and 0 in the lower; ``"stochastic"`` for 1 with the grey level as its probability,
            and 0 otherwise; ``None`` for the stored uint8 (0 to 255, or 0 and 1). Caltech-101 Silhouettes and OCR
            letters are binary already: all options give 0 and 1.
        validation: also return the validation part, between the two others. Caltech-101 Silhouettes and OCR letters
            have one.
        data_dir: a folder with copies, ``mnist.npz`` and so on, which are read instead of the cache and the network. If
            it is not given, the environment variable TF_WCD_DATA may name one.
        seed: seed of the ``"stochastic"`` images, an integer; if not given, each call draws new ones.

    Returns:
        For a small problem, ``(states, probabilities)``: the states with non-zero probability, 0/1 float32
        ``[N, units]``, and their probabilities, float64 ``[N]``. For spin units use ``2 * states - 1``.

        For images, ``((x_train, y_train), (x_test, y_test))``, or with ``validation``
        ``((x_train, y_train), (x_valid, y_valid), (x_test, y_test))``: x float32 ``[n, pixels]`` (uint8 for
        ``binarize=None``), image rows one after the other, and y, the labels from 0, uint8 ``[n]``.

    Raises:
        ValueError: for an unknown name or option, and for a broken file (which is not left in the cache).
        OSError: if a download fails, or a copy is not in the folder.

    Example:

    >>> states, probabilities = load("BS09")
    >>> states.shape, round(float(probabilities.sum()), 12)
    ((14, 9), 1.0)
    """
    source = SOURCES[name]
    if isinstance(source, ImageSet):
        return _load_images(source, binarize, validation, folder_of_copies(data_dir), seed)
    options = (binarize, validation, data_dir, seed)
    if options != ("probabilities", False, None, None):
        raise ValueError(f"Options are for images; {name} is made with known probabilities. Received: {options}")
    return source()


def _load_images(
    images: ImageSet, method: str | None, validation: bool, folder: Any, seed: int | None
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    if method not in METHODS:
        raise ValueError(f"`binarize` must be one of {list(METHODS)}. Received: binarize={method!r}")
    if seed is not None:
        check_integer("seed", seed, least=0)
    if validation and "valid" not in images.rows:
        raise ValueError(
            f"{images.name} has no validation part: take some of the training images. "
            f"Received: validation={validation!r}"
        )
    arrays = images.read() if folder is None else read_copy(images, folder)
    splits = []
    for number, split in enumerate(("train", "valid", "test")):
        if split == "valid" and not validation:
            continue
        # A generator for each part: what is drawn for one part does not depend on which others are loaded.
        rng = np.random.default_rng(None if seed is None else [seed, number])
        splits.append((binarize(arrays[f"x_{split}"], method, images.white, rng), arrays[f"y_{split}"]))
    return tuple(splits)
