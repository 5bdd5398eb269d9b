"""Language models against published rates."""
