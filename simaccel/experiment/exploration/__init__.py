"""From one run to a thousand: design spaces, screened, confirmed, kept."""
