"""Runs the command line as `python -m tilesim`."""

from .cli.start import main

if __name__ == "__main__":
    main()
