"""The one search: candidate trees in columns, mapspaces, near-ties; the machine judges."""
