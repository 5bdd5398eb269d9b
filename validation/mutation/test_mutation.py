"""Random changes of a figure: which places they have, and what the table says of them."""

from validation.mutation.changes import changes
from validation.mutation.run import COUNT, MOST_MISSED, read

CODE = '''\
def cost(a: int, b: int) -> int:
    """Say 1 + 1."""
    if a < 0x10:
        raise ValueError(f"{a + 1} of 2")
    return max(a, b) - b
'''


def test_each_place_changes_once_and_texts_never() -> None:
    made = [(change.line, change.old, change.new) for change in changes(CODE)]
    assert made == [
        (3, "<", "<="),
        (3, "0x10", "17"),
        (5, "max", "min"),
        (5, "a, b", "b, a"),
        (5, "-", "+"),
    ]
    texts = [change.made(CODE).splitlines()[change.line - 1].strip() for change in changes(CODE)]
    assert texts == [
        "if a <= 0x10:",
        "if a < 17:",
        "return min(a, b) - b",
        "return max(b, a) - b",
        "return max(a, b) + b",
    ]


def test_what_was_missed_is_told_from_what_changes_no_figure() -> None:
    rows = read().values()
    assert len(rows) == COUNT
    assert not any(row.noticed and row.equivalent for row in rows)
    assert sum(not row.noticed and not row.equivalent for row in rows) <= MOST_MISSED
