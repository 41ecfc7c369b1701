"""What a simulation tells: figures, advice, pages, traces."""
