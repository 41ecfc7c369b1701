"""Closed-form models of products, attention, convolution and vector operations; calibration, roofline, crossover."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy, listed

if TYPE_CHECKING:
    from ..machine.device import Level, Rate
    from .best import best_schemes
    from .calibration import calibrate
    from .lower_bound import Roofline
    from .profile import Profile

__all__ = ["Level", "Profile", "Rate", "Roofline", "accuracy", "best_schemes", "calibrate"]

_NAMES = {
    "..machine.device": ("Level", "Rate"),
    "..timing.accuracy": ("accuracy",),
    ".best": ("best_schemes",),
    ".calibration": ("calibrate",),
    ".lower_bound": ("Roofline",),
    ".profile": ("Profile",),
}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__all__)
