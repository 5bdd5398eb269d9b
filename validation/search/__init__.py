"""Picks of the schedulers against a wide random search whose candidates run on the machine."""
