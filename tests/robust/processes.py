"""Command lines in processes: their exit code, their output, the memory they needed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """How a process ended; a negative code is the signal that ended it."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Server:
    """Starts processes; see ``server.py``."""

    child: subprocess.Popen[str]
    folder: Path

    def run(
        self,
        *line: str,
        folder: Path,
        kill: tuple[float, int] | None = None,
        file_bytes: int | None = None,
    ) -> Done:
        """Run a command line in a folder; kill: a signal after so many seconds."""
        out, err = (self.folder / name for name in ("out", "err"))
        out.write_bytes(b"")
        err.write_bytes(b"")
        request = {"line": line, "folder": str(folder), "out": str(out), "err": str(err)}
        text = json.dumps({**request, "kill": kill, "file_bytes": file_bytes})
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.write(f"{text}\n")
        self.child.stdin.flush()
        answer = json.loads(self.child.stdout.readline())
        return Done(stdout=out.read_text(), stderr=err.read_text(), **answer)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Start a server whose own files lie in a folder."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "COLUMNS": "100"}
    line = [sys.executable, str(Path(__file__).with_name("server.py"))]
    with subprocess.Popen(
        line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield Server(child, folder)
        finally:
            child.kill()
