"""The base that all packages share: errors, checks of arguments, files, tables, executors, the store."""
