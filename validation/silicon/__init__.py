"""Against chips that were measured: a folder per chip, with its rows, ours beside them, and why."""
