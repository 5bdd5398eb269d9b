"""Programs for the machine: commands and loops, lowering, text form, interpreter."""
