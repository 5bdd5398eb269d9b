"""The closed form against the machine."""
