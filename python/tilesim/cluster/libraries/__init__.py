"""Cost models of communication libraries."""
