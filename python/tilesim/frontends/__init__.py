"""Front ends: models of other frameworks and formats as graphs. Their libraries are extras, imported when used."""

from .stablehlo import from_jax, from_stablehlo

__all__ = ["from_jax", "from_stablehlo"]
