"""Bytes that no mapping moves less than, whatever its tree (`floor`), and what they follow from."""
