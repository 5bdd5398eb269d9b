"""The machine's language: commands and loops, lowering, text form, interpreter."""
