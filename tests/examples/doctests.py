"""Blocks of interactive Python: run them, and write down what they print now."""

import doctest
import re
from collections.abc import Iterator, Mapping
from typing import Any


class _Recorder(doctest.DocTestRunner):
    """Runs examples, and keeps what each printed."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.printed: list[str] = []

    def report_start(self, *_: Any) -> None:  # noqa: ANN401 - as doctest has it
        """Say nothing."""

    def report_success(self, _out: object, _test: object, _example: object, got: str) -> None:
        """Keep what it printed; of a traceback its last line, as the others name this machine."""
        got = re.sub(r"^(Traceback .*\n)(?: .*\n)+", r"\1    ...\n", got, flags=re.MULTILINE)
        self.printed.append(re.sub(r"^$\n", "<BLANKLINE>\n", got, flags=re.MULTILINE))

    def report_failure(self, _out: object, _test: object, _example: object, got: str) -> None:
        """Keep what it printed, too: the page is compared as a whole."""
        self.report_success(_out, _test, _example, got)

    def report_unexpected_exception(
        self,
        _out: object,
        test: doctest.DocTest,
        example: doctest.Example,
        exc_info: Any,  # noqa: ANN401
    ) -> None:
        """Raise it."""
        raise doctest.UnexpectedException(test, example, exc_info) from exc_info[1]


def shown_again(texts: Mapping[int, str], name: str) -> dict[int, str]:
    """Run the examples of blocks, one after the other with the same names; give blocks as they are.

    An exception that an example does not expect is raised.
    """
    parser, recorder = doctest.DocTestParser(), _Recorder()
    parts = {number: parser.parse(text, name) for number, text in texts.items()}
    examples = [one for found in parts.values() for one in found if not isinstance(one, str)]
    recorder.run(doctest.DocTest(examples, {}, name, name, 0, ""))
    printed = iter(recorder.printed)
    return {number: "".join(_written(found, printed)) for number, found in parts.items()}


def _written(parts: list[str | doctest.Example], printed: Iterator[str]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            first, *more = part.source.splitlines()
            yield f">>> {first}\n"
            yield from (f"... {line}".rstrip() + "\n" for line in more)
            yield next(printed)
