"""The examples of the guide print what stands there."""

import doctest
from pathlib import Path

import pytest

from tests.examples.documents import blocks_of

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_print_what_stands_there(page: Path) -> None:
    text = "\n".join(block.text for block in blocks_of(page, "pycon"))
    example = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert result.attempted > 0
    assert not result.failed, "".join(told)
