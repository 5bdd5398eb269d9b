"""One run: what a mapping of a workload takes on an accelerator (`run`), and what limits it."""
