"""How much random tests draw: as CI has time for, or SIMACCEL_DRAWS times as much."""

import os
from typing import Final

DRAWS: Final = int(os.environ.get("SIMACCEL_DRAWS", "1"))
"""`make validate` takes more, and the profile `long` of hypothesis."""
