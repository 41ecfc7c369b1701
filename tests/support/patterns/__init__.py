"""Graphs with a pattern spelled out: what a pass must recognise, and what it must leave alone."""

from . import attention, functions, normalizations, rewrites
from .attention import repeated_heads
from .cases import CASES, built, kinds

__all__ = ["CASES", "attention", "built", "functions", "kinds", "normalizations", "repeated_heads", "rewrites"]
