"""Explorations that are killed at random moments and go on as if nothing had been."""

import os
from pathlib import Path

import pytest

from tests.robust.explorations import kill_and_go_on
from tests.robust.processes import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.mark.long
def test_killed_and_started_again_gives_the_same_bytes(server: Server, tmp_path: Path) -> None:
    for seed in range(3):  # on a busy machine all moments of one may be before or after the work
        folder = tmp_path / str(seed)
        folder.mkdir()
        ends = kill_and_go_on(server, folder, {"parent": 3, "worker": 1, "scheduler": 1}, seed)
        if ends["killed"] >= 1 and ends["some kept"] >= 1:
            return
    raise AssertionError(ends)
