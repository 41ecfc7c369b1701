"""What a search over plans keeps and tells."""
