"""Diagnosis of runs, as facts without text: limits, gains of freed resources, disagreements."""
