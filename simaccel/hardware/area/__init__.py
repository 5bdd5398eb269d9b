"""What a part of an accelerator takes of the chip: published figures, and an accelerator's own."""
