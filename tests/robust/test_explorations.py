"""Explorations that are killed at random moments and go on as if nothing had been."""

import os
from pathlib import Path

import pytest

from tests.robust.explorations import kill_and_go_on
from tests.robust.processes import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def test_killed_and_started_again_gives_the_same_bytes(server: Server, tmp_path: Path) -> None:
    ends = kill_and_go_on(server, tmp_path, {"parent": 3, "worker": 1, "scheduler": 1})
    assert ends["killed"] >= 1
    assert ends["some kept"] >= 1
