"""The Deep Belief Networks of the study on MNIST: their layers, how each is trained, and the names of the parts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

PIXELS, SIDE, CLASSES = 784, 28, 10


class Part(NamedTuple):
    """A part of the study.

    Attributes:
        function: module and name of what does it; it needs TensorFlow, and is imported when it runs.
        files: names of its files in the folder, without their endings.
    """

    function: str
    files: tuple[str, ...]


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "classifier": Part("trainers.studies.dbn.classifier:classify", ("classifier", "wcd_*")),
        "few_labels": Part("trainers.studies.dbn.classifier:few_labels", ("few_labels", "wcd_*")),
        "autoencoder": Part("trainers.studies.dbn.autoencoder:autoencode", ("autoencoder", "unrolled")),
        "generation": Part("trainers.studies.dbn.generation:generate", ("generation", "up_down")),
    }
)


class Phase(NamedTuple):
    """The negative phase of a layer: its name, and the effective sample size that tempered weights keep."""

    name: str
    minimum_ess: float = 0.0


class Stack(NamedTuple):
    """A stack on 0/1 data with the centred gradient; each layer has a learning rate that falls to a hundredth.

    Attributes:
        units: hidden units of each layer, at full width.
        hidden: their kind.
        phases: negative phase of each layer.
        rate: first learning rate.
        lengths: epochs of each layer, as multiples of those asked for.
        labels: number of labels joined to the top layer.
        inputs: what a layer makes of the data for the next one, see `tf_wcd.DBN.pretrain`.
    """

    units: tuple[int, ...]
    hidden: str
    phases: tuple[Phase, ...]
    rate: float
    lengths: tuple[int, ...]
    labels: int = 0
    inputs: str = "probabilities"


# WCD's weights are tempered: plain ones fall onto one or two of 100 points.
_TEMPERED = Phase("wcd", 0.5)
CLASSIFIER = Stack((500, 500), "bernoulli", (_TEMPERED,) * 2, 0.05, (1, 1))
# Eight layers of 0/1 units stay at the mean of the data in back-propagation; spins (tanh) and a linear code do not.
AUTOENCODER = Stack((1000, 500, 250, 30), "spin", (_TEMPERED,) * 4, 0.01, (1, 1, 1, 1))
# What the layers below make of the data is what the top RBM has to draw: states.
GENERATION = Stack(
    (500, 500, 1000), "bernoulli", (Phase("cd"), Phase("cd"), Phase("pcd")), 0.1, (1, 1, 4), CLASSES, "samples"
)

# First rates of fine-tuning, chosen on the last 10,000 training images (--validation), as was the dropout.
CLASSIFIER_RATE = 0.004
AUTOENCODER_RATE = 0.001
UP_DOWN_RATE = 0.02
# For few labels, where there is time for many more epochs: the first rate of each kind of fine-tuning.
FEW_LABELS_RATES: Mapping[str, float] = MappingProxyType({"plain": 0.001, "dropout": 0.002})
FRACTIONS = (0.01, 0.1)
STARTS = ("pre-trained", "random")
PIXEL_DROPOUT, UNIT_DROPOUT = 0.2, 0.3
