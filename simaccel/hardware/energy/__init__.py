"""Energies of actions: published figures, and those of an accelerator's file."""
