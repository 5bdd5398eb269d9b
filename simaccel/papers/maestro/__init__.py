"""MAESTRO: its directive language, dataflows as trees, and its analysis of reuse and runtime."""
