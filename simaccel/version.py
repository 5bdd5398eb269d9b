"""The version of simaccel."""

from functools import lru_cache


@lru_cache
def version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # noqa: PLC0415 - as slow as numpy

    try:
        return metadata.version("simaccel")
    except metadata.PackageNotFoundError:
        # A checkout that is imported without being installed has no version to state.
        return "0+uninstalled"
