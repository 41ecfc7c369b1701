"""Shared base of all packages: errors, checks of arguments, files, tables, executors, the store."""
