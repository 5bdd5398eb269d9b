"""Modules that are loaded when they are first used: reading inputs does without most of them.

`from simaccel.lazy import np` replaces `import numpy as np`.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever numpy has there
            found = getattr(import_module("numpy"), name)
            setattr(self, name, found)
            return found

    np = _Numpy()

__all__ = ["lazy_attributes", "np"]


def lazy_attributes(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562): names are loaded from their modules.

    ``homes`` has the names that each module of the package gives.
    """
    places = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:  # noqa: ANN401 - whatever stands there
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return find
