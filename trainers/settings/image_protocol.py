"""The protocol of the study of images: the sets, what is held fixed, and how runs are chosen and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings.runs import ImageMethod


class ImageSet(NamedTuple):
    """How long runs on a set of images are, and how its grey levels are read.

    Attributes:
        name: of the data set.
        title: what figures call it.
        binarize: how grey levels are read.
        epochs: length of the long run.
        mesh_epochs: length of the runs that choose its rate: all rates of the mesh, then the best two of them.
        held_back: training images that are held back to choose the rate, and given back to the long run; 0 where the
            set has a validation part.
    """

    name: str
    title: str
    binarize: str
    epochs: int
    mesh_epochs: tuple[int, ...]
    held_back: int = 0


class Variant(NamedTuple):
    """Type of the units of both layers, and whether the gradient is centred."""

    units: str
    centered: bool


class Evaluation(NamedTuple):
    """How a trained model is evaluated on the test images.

    Attributes:
        counts: numbers of samples in the Parzen curve.
        temperatures: of the annealing.
        seed: of samples and estimates.
    """

    counts: tuple[int, ...] = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    temperatures: int = 10_000
    seed: int = 11


# The paper trains for 1000 epochs on all four.
IMAGE_SETS: Mapping[str, ImageSet] = MappingProxyType(
    {
        images.name: images
        for images in (
            ImageSet("caltech101_silhouettes", "Caltech-101 Silhouettes", "threshold", 1000, (40, 200)),
            ImageSet("ocr_letters", "OCR letters", "threshold", 1000, (20, 100)),
            ImageSet("mnist", "MNIST", "stochastic", 100, (4,), held_back=5000),
            ImageSet("fashion_mnist", "Fashion-MNIST", "threshold", 100, (4,), held_back=5000),
        )
    }
)
MAIN = Variant("bernoulli", True)


class ImageProtocol(NamedTuple):
    """PCD against WPCD on sets of images. The defaults are the paper's, and the lengths of runs that we can afford.

    Besides the paper's two methods there is WPCD with tempered weights, which keep an effective sample size of half of
    the chains.

    Attributes:
        sets: the sets of images, by name.
        methods: what is compared.
        mesh: learning rates to choose from.
        main: units and gradient of the long runs.
        variants: units and gradients that are tried on the set ``variants_on``.
        variants_on: name of that set.
        hidden: hidden units.
        batch_size: images at each update.
        momentum: of SGD.
        weight_decay: part of the weights taken away at each update.
        seed: of the initial weights and of training.
        evaluation: how a long run is evaluated.
    """

    sets: Mapping[str, ImageSet] = IMAGE_SETS
    methods: tuple[ImageMethod, ...] = (ImageMethod("PCD"), ImageMethod("WPCD"), ImageMethod("WPCD", 0.5))
    mesh: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    main: Variant = MAIN
    variants: tuple[Variant, ...] = (
        MAIN,
        Variant("bernoulli", False),
        Variant("spin", False),
        Variant("spin", True),
    )
    variants_on: str = "ocr_letters"
    hidden: int = 500
    batch_size: int = 100
    momentum: float = 0.75
    weight_decay: float = 0.0002
    seed: int = 11
    evaluation: Evaluation = Evaluation()
