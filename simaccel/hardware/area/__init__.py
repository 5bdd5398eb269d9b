"""Areas of an accelerator's parts on the chip: published figures, and its own."""
