"""Energies of actions: published figures, and an accelerator's own."""
