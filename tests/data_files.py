"""Cases of tests that stand in a file of data beside them: `data/x.yaml` of `test_x.py`."""

from pathlib import Path
from typing import Any

import yaml


def data_beside(test: str) -> Any:  # noqa: ANN401 - what YAML holds
    """Return what the file of data of a test's module holds."""
    path = Path(test)
    data = path.parent / "data" / f"{path.stem.removeprefix('test_')}.yaml"
    return yaml.safe_load(data.read_text(encoding="utf-8"))
