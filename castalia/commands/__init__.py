"""The commands, one module a group. Each imports what it runs when it runs, so `--help` is quick."""
