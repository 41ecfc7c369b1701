"""Results: figures, advice, pages, traces."""
