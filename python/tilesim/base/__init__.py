"""What every package stands on: errors, checks of arguments, files, tables, executors, the store."""
