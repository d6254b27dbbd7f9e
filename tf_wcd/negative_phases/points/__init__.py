"""Where the points of a negative phase come from."""

from tf_wcd.negative_phases.points.chains import AnnealedChains, PersistentChains
from tf_wcd.negative_phases.points.fixed import GivenPoints
from tf_wcd.negative_phases.points.joined import Joined
from tf_wcd.negative_phases.points.neighbours import Neighbours
from tf_wcd.negative_phases.points.random_states import RandomStates
from tf_wcd.negative_phases.points.reconstructions import Reconstructions
from tf_wcd.negative_phases.points.space import WholeSpace
from tf_wcd.negative_phases.points.tempered import TemperedChains
from tf_wcd.negative_phases.points.trajectory import TrajectoryChains

__all__ = [
    "AnnealedChains",
    "GivenPoints",
    "Joined",
    "Neighbours",
    "PersistentChains",
    "RandomStates",
    "Reconstructions",
    "TemperedChains",
    "TrajectoryChains",
    "WholeSpace",
]
