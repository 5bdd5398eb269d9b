"""What the examples of all pages share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder for found mappings, the same in all test processes of this session."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "searched"
    folder.mkdir(exist_ok=True)
    return folder
