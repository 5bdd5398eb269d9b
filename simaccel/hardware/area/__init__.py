"""Areas of an accelerator's parts: published figures, and those of its file."""
