"""FLAT's evaluation, every exhibit twice: by a closed form like the paper's, and by execution."""
