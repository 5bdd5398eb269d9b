"""Commands that are killed at any moment."""
