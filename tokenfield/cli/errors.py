"""Errors that only the command line knows."""


class Interrupted(Exception):
    """Ctrl-C during a run, with a message that says what was kept."""
