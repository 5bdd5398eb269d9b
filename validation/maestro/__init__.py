"""MAESTRO: what its tool prints, its paper shows, silicon takes."""
