"""Results as data frames and as pictures of matplotlib."""
