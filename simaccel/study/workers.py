"""Workers: processes that run tasks; each task returns, raises an error, or its process dies.

A task whose process dies is tried once more, alone, when all others have ended; if that process
dies, too, the task is lost, and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, Final, NoReturn, TypeVar

from simaccel.errors import SimaccelError, WorkerDiedError

Task = TypeVar("Task")
Result = TypeVar("Result")
Numbered = Generator[tuple[int, Result], None, None]
"""Results with the numbers of their tasks, in the order in which they arrive."""
Outcome = tuple[BaseException | None, Any]
"""(error that a task raised or None, its result)."""
DIED: Final = "a process of the search died; is there enough memory?"


class ClusterError(SimaccelError):
    """The processes that are to execute a task can't."""

    exit_code = 1


def raise_died(_task: object) -> NoReturn:
    """Raise the error of a task whose process died."""
    raise WorkerDiedError(DIED)


class TaskWorkers(ABC):
    """Processes that run tasks."""

    @abstractmethod
    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        """Yield outcomes of the tasks ``numbers``; `WorkerDiedError` if a process died."""

    def run_numbered(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], lost: Callable[[Task], Result]
    ) -> Numbered[Result]:
        """Run ``work`` on each task, the last first; ``lost`` gives the result if one died."""
        yield from self._results(work, tasks, range(len(tasks))[::-1], lost)

    def run_each(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """Yield the results in the order of the tasks; tasks run only as far as results are read.

        Raises:
            WorkerDiedError: a process died.
        """
        early: dict[int, Result] = {}
        after = 0
        with closing(self._results(work, tasks, range(len(tasks)), raise_died)) as results:
            for number, result in results:
                early[number] = result
                while after in early:
                    yield early.pop(after)
                    after += 1

    def _results(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        numbers: Sequence[int],
        lost: Callable[[Task], Result],
    ) -> Numbered[Result]:
        """Yield results as they come; tasks whose process died are tried again, each alone."""
        died: list[int] = []
        with closing(self.outcomes(work, tasks, numbers)) as outcomes:
            for number, (error, result) in outcomes:
                if isinstance(error, WorkerDiedError):
                    died.append(number)
                elif error is not None:
                    raise error
                else:
                    yield number, result
        for again in died:
            for number, (error, result) in self.outcomes(work, tasks, [again]):
                if error is not None and not isinstance(error, WorkerDiedError):
                    raise error
                yield number, lost(tasks[number]) if error is not None else result
