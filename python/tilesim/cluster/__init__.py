"""Many chips: networks, communication libraries, collectives, plans and steps."""
