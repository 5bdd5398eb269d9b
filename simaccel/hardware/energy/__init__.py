"""What an action costs in energy: published figures, and an accelerator's own."""
