"""Rotation and alignment of factors."""

from typing import TYPE_CHECKING

from cuspfa._utils.lazy import lazy_names, public_names

if TYPE_CHECKING:
    from cuspfa.rotation.aligned import AlignedDraws as AlignedDraws
    from cuspfa.rotation.aligned import Item as Item
    from cuspfa.rotation.aligned import LoadingTable as LoadingTable
    from cuspfa.rotation.aligned import ScoreTable as ScoreTable
    from cuspfa.rotation.congruence import FactorCongruence as FactorCongruence
    from cuspfa.rotation.congruence import factor_congruence as factor_congruence
    from cuspfa.rotation.gpa import RotatedLoadings as RotatedLoadings
    from cuspfa.rotation.gpa import Rotation as Rotation
    from cuspfa.rotation.gpa import rotate as rotate

_DEFINED_IN = {
    "cuspfa.rotation.aligned": ("AlignedDraws", "Item", "LoadingTable", "ScoreTable"),
    "cuspfa.rotation.congruence": ("FactorCongruence", "factor_congruence"),
    "cuspfa.rotation.gpa": ("RotatedLoadings", "Rotation", "rotate"),
}
__all__ = public_names(_DEFINED_IN)
__getattr__, __dir__ = lazy_names(__name__, _DEFINED_IN)
