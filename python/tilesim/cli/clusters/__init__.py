"""The subcommands of `tilesim cluster`."""
