"""A plug-in of simaccel; `pyproject.toml` says which names it adds."""

from pathlib import Path

MICRO = Path(__file__).with_name("micro.yaml")
"""The accelerator `micro`: the path of its file."""
