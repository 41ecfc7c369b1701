"""Results of simulations and estimates: figures, advice, pages, traces."""
