"""Unit types: what a visible or hidden unit can be."""

from tf_wcd.units.base import Unit
from tf_wcd.units.bernoulli import Bernoulli
from tf_wcd.units.binomial import Binomial
from tf_wcd.units.drelu import DReLU
from tf_wcd.units.gaussian import Gaussian
from tf_wcd.units.labelled import Labelled
from tf_wcd.units.mixed import Mixed
from tf_wcd.units.names import get, register, serialize, unregister
from tf_wcd.units.potts import Potts
from tf_wcd.units.relu import ReLU
from tf_wcd.units.spin import Spin

__all__ = [
    "Bernoulli",
    "Binomial",
    "DReLU",
    "Gaussian",
    "Labelled",
    "Mixed",
    "Potts",
    "ReLU",
    "Spin",
    "Unit",
    "get",
    "register",
    "serialize",
    "unregister",
]

for _unit in (Bernoulli, Spin, Gaussian, ReLU, DReLU):
    register(_unit.name, _unit)
