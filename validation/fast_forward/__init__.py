"""Fast-forward against the run event by event."""
