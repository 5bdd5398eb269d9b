"""MAESTRO descriptions as text: the syntax tree, reading with all faults, printing back."""
