"""What is booked to causes against what freeing them saves: the figures, and how they are made."""

from pathlib import Path

import pytest

from validation.blame.run import BOOKED, Row, advice, measured, read, spearman, summary

README = Path(__file__).with_name("README.md")


def test_the_page_has_the_figures_of_its_table() -> None:
    section = f"<!-- blame -->\n{summary(read())}\n<!-- end of blame -->"
    assert section in README.read_text(encoding="utf-8")


def test_most_booked_and_most_saving_causes_rank_alike() -> None:
    """Issue: over random programs, what is booked and what freeing saves rank alike."""
    rows = read()
    programs: dict[int, list[Row]] = {row["seed"]: [] for row in rows[:600]}
    for row in rows:
        if row["seed"] in programs:
            programs[row["seed"]].append(row)
    said = [advice(one) for one in programs.values()]
    assert said.count("best") > 0.8 * (len(said) - said.count("none"))


def test_ranks_of_equals_are_their_mean() -> None:
    """By hand: ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3 have the correlation 4.5 / sqrt(4.5 * 5)."""
    assert spearman([1, 5, 5, 9], [2, 3, 4, 8]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman([1, 2, 3], [9, 5, 1]) == -1


def test_advice_by_hand() -> None:
    def program(*causes: tuple[float, float]) -> list[dict[str, object]]:
        return [
            {"cause": name, "booked": booked, "saved": saved}
            for name, (booked, saved) in zip(BOOKED, causes, strict=False)
        ]

    assert advice(program((0.5, 0.4), (0.2, 0.42))) == "best"
    assert advice(program((0.5, 0.1), (0.2, 0.4))) == "taken over"
    assert advice(program((0.0, 0.0), (0.001, 0.0), (0.0, 0.4))) == "silent"
    assert advice(program((0.5, 0.001), (0.2, 0.0))) == "none"


def test_a_program_is_measured_with_each_cause_that_takes_time() -> None:
    rows = list(measured(12))
    assert rows
    assert {row["cause"] for row in rows} <= set(BOOKED)
    for seed in {row["seed"] for row in rows}:
        mine = [row for row in rows if row["seed"] == seed]
        assert sum(row["booked"] for row in mine) < 1
        assert all(row["saved"] < 1 for row in mine)
        for row in mine:
            assert (row["without_turns"] != "") == (row["saved"] < -0.001)
