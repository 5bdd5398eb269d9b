"""Explorations that are killed at random moments, against those that are left alone."""
