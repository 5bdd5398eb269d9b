"""Hugging Face's ``config.json`` as a transformer."""
