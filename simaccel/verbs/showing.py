"""Results in a notebook: tables as HTML, rows as data frames, figures as pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.report.tables import Table, csv_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]
_DPI: Final = 110
"""Resolution of inline pictures: about 770 pixels for the width of two columns."""


class Plot:
    """A figure that a notebook displays as a picture; ``figure`` is matplotlib's."""

    def __init__(self, draw: Callable[[], Figure]) -> None:
        from simaccel.report.figures.style import style

        with style():
            self.figure = draw()
            picture = io.BytesIO()
            self.figure.savefig(picture, format="png", dpi=_DPI, metadata={"Software": None})
        self._png = picture.getvalue()

    def __repr__(self) -> str:
        width, height = self.figure.get_size_inches()
        return f"<Plot of {width:.1f} x {height:.1f} in; save('figure.pdf') writes it>"

    def _repr_png_(self) -> bytes:
        return self._png

    def save(
        self, path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
    ) -> Path:
        """Write the figure: png, svg or pdf by the suffix; ``inputs`` are never replaced.

        Raises:
            InputError: the file exists and ``force`` is not given, or it can't be written.
        """
        from simaccel.report.figures.style import save_figure, style

        with style():
            return save_figure(self.figure, path, force=force, inputs=inputs)


def frame(rows: Rows) -> pd.DataFrame:
    """Return rows as a data frame.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'simaccel[notebook]'") from error
    return pd.DataFrame.from_records(list(rows))


class ShownResult:
    """A result: title, tables and lines for a notebook, rows for a data frame, and a figure."""

    if TYPE_CHECKING:

        @property
        def title(self) -> str:
            """The title: what ran on what."""

        def to_dict(self) -> Any:  # noqa: ANN401 - plain data of any form
            """Return plain data."""

    def _parts(self) -> Iterable[Table | str]:
        """Yield tables and lines below the title."""
        raise NotImplementedError

    def _rows(self) -> Rows:
        """Return the rows of a data frame."""
        raise NotImplementedError

    def _draw(self) -> Figure:
        raise NotImplementedError

    def outputs(self) -> dict[str, Any]:
        """Return what makes the outputs of a command: parts, JSON, and files by option."""
        files = {"--csv": lambda: csv_text(self._rows()), "--plot": self._draw}
        return {"parts": self._parts, "document": self.to_dict, "files": files}

    def _repr_html_(self) -> str:
        from simaccel.report.tables import parts_html

        return parts_html(self.title, self._parts())

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the rows and columns that the command writes as CSV.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(self._rows())

    def plot(self) -> Plot:
        """Draw the figure of the command's ``--plot``."""
        return Plot(self._draw)
