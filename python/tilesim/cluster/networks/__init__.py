"""Closed forms of networks that the formulas of one axis do not give: unequal tori, switches that sum."""
