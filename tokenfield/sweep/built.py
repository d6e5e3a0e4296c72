"""The model and the initial state of a cell."""

from typing import Any

from ..config import build
from .cells import Cell
from .plan import Plan


def built(plan: Plan, cell: Cell, like: tuple[Any, Any] | None = None) -> tuple[Any, Any] | Exception:
    """Return the model and the initial state of a cell, or the error that building them raised.

    Args:
        like: the model, which is shared, and the state of another repeat of the same point.
    """
    try:
        if like is None:
            return build.model(cell.config), start(plan, cell)
        return like[0], start(plan, cell, like[1])
    except Exception as error:
        return error


def start(plan: Plan, cell: Cell, like: Any = None) -> Any:
    """Return the initial state of a cell; `like` is that of another repeat of the same point."""
    if plan.state == "equiangular":
        from ..states import Equiangular

        return Equiangular(cell.config.tokens.rho, cell.config.tokens.n) if like is None else like
    return build.start(cell.config, cell.seed, like)
