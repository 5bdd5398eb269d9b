"""The running model: SimPy processes that execute programs."""
