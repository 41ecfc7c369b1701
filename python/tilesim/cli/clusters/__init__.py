"""Commands about clusters beyond their networks."""
