"""Parts of the search over plans."""
