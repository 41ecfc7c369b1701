"""Results of runs: figures, advice, pages, traces."""
