"""Files that a command writes, by option: refused before anything runs, written at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from simaccel.cli.faults import gather, require_stdout_free
from simaccel.files.targets import STDOUT, require_distinct, require_target, writing, writing_text

_BINARY: Final = ("--trace", "--parquet")
_WORDS: Final = {"--trace": "trace", "-o": "page", "--csv": "table", "--parquet": "table"}


@dataclass(frozen=True)
class OutputFiles:
    """The output files by option, and the input files, which are never replaced.

    An option that begins with ``--plot`` is a figure.
    """

    options: Mapping[str, str | None]
    force: bool
    inputs: Sequence[str | Path] = ()

    @property
    def paths(self) -> dict[str, str]:
        """The output files that were given."""
        return {option: path for option, path in self.options.items() if path is not None}

    @property
    def prints(self) -> bool:
        """Whether one of them is standard output."""
        return STDOUT in self.paths.values()

    @property
    def _how(self) -> dict[str, Any]:
        return {"force": self.force, "inputs": self.inputs}

    def require(self) -> None:
        """Refuse what can't be written.

        Raises:
            InputError: a file that exists, a folder that doesn't, a suffix that no figure has, two
                outputs in one place.

        """
        printed: dict[str, object] = {}
        for option, path in reversed(self.paths.items()):
            if not self._is_figure(option) and option not in _BINARY:
                require_stdout_free(path, option, others=printed)
                printed[f"{option} -"] = path == STDOUT
        gather(
            *(partial(self._require, option, path) for option, path in self.paths.items()),
            lambda: require_distinct(self.paths.items()),
        )

    def _require(self, option: str, path: str) -> None:
        if self._is_figure(option):
            from simaccel.report.figures.style import require_figure_target

            require_figure_target(path, **self._how)
            return
        if option == "--parquet":
            from simaccel.files.parquet import require_parquet

            require_parquet("--parquet", "--csv")
        require_target(path, text=option not in _BINARY, **self._how)

    def write(self, option: str, make: Callable[..., Any]) -> list[str]:
        """Write a file if it was given; return the line that names it.

        ``make`` gives a figure, or text, whole or in pieces; a binary file it writes to a path.
        """
        path = self.paths.get(option)
        if path is None:
            return []
        if self._is_figure(option):
            from simaccel.report.figures.style import save_figure, style

            with style():
                save_figure(make(), path, **self._how)
        elif option in _BINARY:
            with writing(path, **self._how) as partly:
                make(partly)
        else:
            with writing_text(path, **self._how) as stream:
                text: str | Iterable[str] = make()
                for piece in [text] if isinstance(text, str) else text:
                    stream.write(piece)
        return [f"{_WORDS.get(option, 'figure')}: {path}"]

    @staticmethod
    def _is_figure(option: str) -> bool:
        return option.startswith("--plot")
