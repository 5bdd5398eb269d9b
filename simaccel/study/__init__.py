"""Studies: rows of settings, the run of each, and a table of the results; no text output."""
