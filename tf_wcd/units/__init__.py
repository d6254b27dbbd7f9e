"""Unit types: what a visible or hidden unit can be."""

from tf_wcd.units.base import Unit
from tf_wcd.units.bernoulli import Bernoulli
from tf_wcd.units.gaussian import Gaussian
from tf_wcd.units.labelled import Labelled
from tf_wcd.units.mixed import Mixed
from tf_wcd.units.names import get, register, serialize, unregister
from tf_wcd.units.potts import Potts
from tf_wcd.units.spin import Spin

__all__ = [
    "Bernoulli",
    "Gaussian",
    "Labelled",
    "Mixed",
    "Potts",
    "Spin",
    "Unit",
    "get",
    "register",
    "serialize",
    "unregister",
]

for _unit in (Bernoulli, Spin, Gaussian):
    register(_unit.name, _unit)
