"""Orojenesis: the public tool's curves and the paper's exhibits."""
