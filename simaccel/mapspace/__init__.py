"""Which mappings there are: factors with remainders, constraints, search."""
