"""Figures look the same everywhere, and are either written whole or not at all."""

import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from simaccel.errors import InputError
from simaccel.report.figures.style import (
    CAUSE_COLOURS,
    CAUSE_LABELS,
    SUFFIXES,
    in_order,
    new_figure,
    require_figure_target,
    save_figure,
    style,
)
from simaccel.trace.schema import CAUSES

Colour = npt.NDArray[np.float64]

# Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1: on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
    "grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
LEAST_DIFFERENCE = 10
"""In CIE L*a*b*; 2 is what an eye just sees side by side."""


def seen(colour: str, blindness: str) -> Colour:
    """A colour in L*a*b* (D65) as an eye sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(BLINDNESS[blindness] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ linear / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_causes_with_the_same_hatch_differ_in_colour_for_every_eye(blindness: str) -> None:
    for (a, (one, hatch)), (b, (other, its)) in itertools.combinations(CAUSE_COLOURS.items(), 2):
        difference = np.linalg.norm(seen(one, blindness) - seen(other, blindness))
        assert hatch != its or difference > LEAST_DIFFERENCE, (a, b, difference)


def test_every_cause_has_a_look_and_a_name() -> None:
    assert set(CAUSE_COLOURS) == set(CAUSE_LABELS) == set(CAUSES)
    assert in_order(CAUSES)[0] == "busy"
    assert in_order([*CAUSES, "new"])[-2:] == ["idle", "new"]


def drawn() -> Figure:
    """A figure with all that may depend on the day or on chance."""
    figure = new_figure(3.3, 2)
    axes = figure.subplots()
    axes.bar([1], [2], hatch="//", label="bytes")
    axes.set_xlabel("time (cycles)")
    axes.legend()
    return figure


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_figure_gives_the_same_bytes_whatever_the_settings(
    suffix: str, tmp_path: Path
) -> None:
    contents = []
    for name, size in (("a", 10), ("b", 30)):
        with mpl.rc_context({"font.size": size, "svg.hashsalt": None, "savefig.dpi": size}):
            with style():
                contents.append(save_figure(drawn(), tmp_path / (name + suffix)).read_bytes())
            assert mpl.rcParams["font.size"] == size
    assert contents[0] == contents[1]
    assert len(contents[0]) > 1000
    for word in (b"Date", b"/tmp", b"matplotlib version"):
        assert word not in contents[0]


TARGETS = {
    "a.jpg": r"a\.jpg: suffix: got '\.jpg'; (did you mean '\.png'\?|allowed: one of \.png, \.svg)",
    "a": r"a: suffix: got 'a'; allowed: one of \.png, \.svg, \.pdf",
    "missing/a.png": r"missing/a\.png: output folder: got '.*; allowed: an existing folder",
    "folder.png": r"folder\.png: output: got 'a folder'; allowed: the path of a file",
    "old.svg": r"old\.svg: output: got 'a file that exists'; allowed: a new file, or --force",
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_cannot_be_is_refused_with_what_may_be(name: str, tmp_path: Path) -> None:
    (tmp_path / "old.svg").write_text("old")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match=TARGETS[name]):
        require_figure_target(tmp_path / name)
    assert (tmp_path / "old.svg").read_text() == "old"


def test_force_replaces_a_file_and_suffixes_may_be_capitals(tmp_path: Path) -> None:
    (tmp_path / "old.SVG").write_text("old")
    with style():
        save_figure(drawn(), tmp_path / "old.SVG", force=True)
    assert (tmp_path / "old.SVG").read_bytes().startswith(b"<?xml")
    assert [one.name for one in tmp_path.iterdir()] == ["old.SVG"]


@pytest.fixture(params=[OSError("disk full"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def accident(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    """Something goes wrong when half of the file is there."""

    def savefig(_: Figure, path: Path, **__: object) -> None:
        path.write_text("half")
        raise wrong

    wrong: BaseException = request.param
    monkeypatch.setattr(Figure, "savefig", savefig)
    return wrong


def test_an_accident_leaves_the_old_file_and_nothing_else(
    accident: BaseException, tmp_path: Path
) -> None:
    target = tmp_path / "old.pdf"
    target.write_text("old")
    wanted = InputError if isinstance(accident, OSError) else KeyboardInterrupt
    with style(), pytest.raises(wanted):
        save_figure(drawn(), target, force=True)
    assert target.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["old.pdf"]
