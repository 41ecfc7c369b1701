"""HTML pages and notebook views of `why` and `play`."""
