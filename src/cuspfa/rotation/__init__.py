"""Rotation and alignment of factors."""

from typing import TYPE_CHECKING, Any

from cuspfa._utils.lazy import attribute

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

__all__ = [
    "AlignedDraws",
    "FactorCongruence",
    "Item",
    "LoadingTable",
    "RotatedLoadings",
    "Rotation",
    "ScoreTable",
    "factor_congruence",
    "rotate",
]
_MODULES = {
    "AlignedDraws": "cuspfa.rotation.aligned",
    "FactorCongruence": "cuspfa.rotation.congruence",
    "Item": "cuspfa.rotation.aligned",
    "LoadingTable": "cuspfa.rotation.aligned",
    "RotatedLoadings": "cuspfa.rotation.gpa",
    "Rotation": "cuspfa.rotation.gpa",
    "ScoreTable": "cuspfa.rotation.aligned",
    "factor_congruence": "cuspfa.rotation.congruence",
    "rotate": "cuspfa.rotation.gpa",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
