"""Every file of `examples/` is run by a test; here those that draw pictures, on less."""

from pathlib import Path

import pytest

from examples import picture, trace_picture

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
PNG = b"\x89PNG"


def test_the_picture_of_the_readme_is_drawn(
    tmp_path: Path, searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMACCEL_CACHE", str(searched))
    target = tmp_path / "images" / "picture.png"
    for name, value in {"TARGET": target, "LENGTHS": (64, 128), "STACKED": (64, 128)}.items():
        monkeypatch.setattr(picture, name, value)
    monkeypatch.setattr(picture, "BATCH", 1)
    drawn = {name: picture.DATAFLOWS[name] for name in ("naive", "flash")}
    monkeypatch.setattr(picture, "DATAFLOWS", drawn)
    picture.main()
    assert target.read_bytes().startswith(PNG)


def test_the_shares_of_the_picture_are_all_cycles() -> None:
    shares = picture.array_shares(picture.run("naive", 64))
    assert shares.keys() == picture.CAUSES.keys()
    assert all(-1e-9 <= share <= 1 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(1)


def test_the_picture_of_a_trace_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "trace.png"
    monkeypatch.setattr(trace_picture, "TARGET", target)
    trace_picture.main()
    assert target.read_bytes().startswith(PNG)


def test_every_example_is_named_in_a_test() -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("*.py")
    )
    entries = {path for path in EXAMPLES.iterdir() if path.name[0] not in "_."}
    assert entries
    for path in entries:
        assert path.stem in tests or f"*{path.suffix}" in tests, path.name
