"""Studies: rows of settings, each run, and the table of what came out; no text."""
