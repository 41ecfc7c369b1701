"""Programs run: in time, and by value."""
