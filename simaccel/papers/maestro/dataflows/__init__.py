"""Dataflows written as data-centric directives (MAESTRO): maps and clusters."""
