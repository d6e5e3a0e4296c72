"""Errors that a run can raise."""


class SolverError(RuntimeError):
    """The integration could not continue."""


class TooManySteps(SolverError, ValueError):
    """A run with fixed steps would need more steps than allowed; it was not started."""
