"""How: mappings, programs, and the lowering from one to the other."""
