"""The least bytes that any mapping moves, whatever its tree (`floor`), and their terms."""
