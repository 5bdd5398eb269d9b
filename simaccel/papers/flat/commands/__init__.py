"""Rows, tables and figures of the exhibits."""
