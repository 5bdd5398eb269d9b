"""Modules that are loaded when they are first used: reading inputs does without most of them.

`from simaccel.lazy import np` replaces `import numpy as np`.
"""

from collections.abc import Callable
from functools import cache
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


def lazy_attributes(package: str, file: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562): names are loaded from their modules.

    The modules are those of the imports in the package's ``file``, also of imports that only type
    checkers run; so a name is written there and in ``__all__``, and nowhere else.
    """

    @cache
    def homes() -> dict[str, str]:
        import ast  # noqa: PLC0415 - what nobody asks a name of waits for neither
        from pathlib import Path  # noqa: PLC0415 - likewise

        imports = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        return {
            name.name: node.module
            for node in imports
            if isinstance(node, ast.ImportFrom) and node.module
            for name in node.names
        }

    def find(name: str) -> Any:  # noqa: ANN401 - whatever stands there
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return find
