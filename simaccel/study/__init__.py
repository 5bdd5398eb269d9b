"""One run with its search, and studies: rows of settings, the run of each; no text output."""
