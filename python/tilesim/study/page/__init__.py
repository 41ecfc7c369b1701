"""Pages and notebook views of `why` and `play`."""
