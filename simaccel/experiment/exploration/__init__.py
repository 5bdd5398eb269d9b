"""From one run to a thousand: design spaces, run and kept."""
