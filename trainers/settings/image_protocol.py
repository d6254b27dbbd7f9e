"""The protocol of the study of images: the sets, what is held fixed, and how runs are chosen and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings.record_protocol import Annealing
from trainers.settings.runs import ImageMethod

METHODS = (ImageMethod("PCD"), ImageMethod("WPCD"), ImageMethod("WPCD", 0.5), ImageMethod("JPCD"))
# Exchange with moments of the training costs about three times as much: where that can be afforded.
_WITH_EXCHANGE = (*METHODS, ImageMethod("PTT"))


class ImageSet(NamedTuple):
    """What is run on a set of images, and how its grey levels are read.

    Attributes:
        name: of the data set.
        title: what figures call it.
        binarize: how grey levels are read, once and for all.
        epochs: length of the long runs.
        mesh_epochs: length of the runs with labels that choose their rates: all rates of the mesh, then the best two
            of them.
        held_back: training images that are held back to choose the rate, and given back to the long run; 0 where the
            set has a validation part.
        seeds: of the long runs.
        methods: what is compared.
    """

    name: str
    title: str
    binarize: str
    epochs: int
    mesh_epochs: tuple[int, ...]
    held_back: int = 0
    seeds: tuple[int, ...] = (100,)
    methods: tuple[ImageMethod, ...] = METHODS


class Variant(NamedTuple):
    """Type of the units of both layers, and whether the gradient is centred."""

    units: str
    centered: bool


class Evaluation(NamedTuple):
    """How a trained model is evaluated on the test images: in about five minutes of one core for 784 x 500 units.

    Attributes:
        counts: numbers of samples in the Parzen curves.
        chains: chains that the samples come from.
        temperatures: of the path along which a population of as many chains comes from independent units to the
            model's equilibrium.
        burn_in: Gibbs steps before the first samples are taken, from this population or from training images.
        spacing: Gibbs steps from one sample of a chain to its next.
        annealing: how log Z is estimated.
        seed: of the samples.
    """

    counts: tuple[int, ...] = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    chains: int = 1000
    temperatures: int = 5000
    burn_in: int = 200
    spacing: int = 10
    annealing: Annealing = Annealing(budget=12_800, chains=200)
    seed: int = 11


# From the shortest to the longest.
IMAGE_SETS: Mapping[str, ImageSet] = MappingProxyType(
    {
        images.name: images
        for images in (
            ImageSet(
                "caltech101_silhouettes", "Caltech-101 Silhouettes", "threshold", 1000, (100, 300),
                seeds=(100, 101, 102), methods=_WITH_EXCHANGE,
            ),
            ImageSet(
                "ocr_letters", "OCR letters", "threshold", 1000, (20, 100),
                seeds=(100, 101, 102), methods=_WITH_EXCHANGE,
            ),
            ImageSet("mnist", "MNIST", "stochastic", 1000, (10, 50), held_back=5000),
            ImageSet("fashion_mnist", "Fashion-MNIST", "threshold", 1000, (10, 50), held_back=5000),
        )
    }
)  # fmt: skip
MAIN = Variant("bernoulli", True)


class ImageProtocol(NamedTuple):
    """PCD against weighted persistent chains on sets of images. The defaults are the paper's, but for one point.

    The paper chooses rates by the test accuracy of models with labels; here held-out training images decide. Besides
    the paper's two methods there are WPCD with tempered weights, which keep an effective sample size of half of the
    chains, JPCD, and PTT where it can be afforded.

    Attributes:
        sets: the sets of images, by name, in the order in which they are worked on.
        mesh: learning rates to choose from, from the smallest on.
        main: units and gradient.
        hidden: hidden units.
        batch_size: images at each update.
        momentum: of SGD.
        weight_decay: part of the weights taken away at each update.
        seed: of the initial weights and of training, where it is not that of a long run.
        evaluation: how a long run is evaluated.
    """

    sets: Mapping[str, ImageSet] = IMAGE_SETS
    mesh: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    main: Variant = MAIN
    hidden: int = 500
    batch_size: int = 100
    momentum: float = 0.75
    weight_decay: float = 0.0002
    seed: int = 11
    evaluation: Evaluation = Evaluation()
