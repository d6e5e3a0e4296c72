"""Errors of the command line."""


class Interrupted(Exception):
    """Ctrl-C during a run, with a message that says what was saved."""
