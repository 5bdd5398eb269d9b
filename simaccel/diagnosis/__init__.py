"""Diagnosis of runs, as facts without text: gains, disagreements, differences, checks of values."""
