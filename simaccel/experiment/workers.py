"""Workers: processes that run tasks, each of which gives a result, an error, or dies.

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
Found = TypeVar("Found")
Numbered = Generator[tuple[int, Found], None, None]
"""Results with the numbers of their tasks, as they come."""
Outcome = tuple[BaseException | None, Any]
"""What a task raised, or gave."""
DIED: Final = "a process of the search died; is there enough memory?"


class ClusterError(SimaccelError):
    """The processes that are to execute a task can't."""

    exit_code = 1


def _raise_died(_task: object) -> NoReturn:
    raise WorkerDiedError(DIED)


class TaskWorkers(ABC):
    """Processes that run tasks."""

    @abstractmethod
    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        """Yield what came of some of the tasks; a ``WorkerDiedError`` where a process died."""

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        """Run ``work`` on each task, the last ones first; ``lost`` where its process died."""
        yield from self._results(work, tasks, range(len(tasks))[::-1], lost)

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        """Yield the results in the order of the tasks; tasks run only as far as results are read.

        Raises:
            WorkerDiedError: a process died.

        """
        early: dict[int, Found] = {}
        after = 0
        with closing(self._results(work, tasks, range(len(tasks)), _raise_died)) as results:
            for number, result in results:
                early[number] = result
                while after in early:
                    yield early.pop(after)
                    after += 1

    def _results(
        self,
        work: Callable[[Task], Found],
        tasks: Sequence[Task],
        numbers: Sequence[int],
        lost: Callable[[Task], Found],
    ) -> Numbered[Found]:
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
