"""Many runs over a grid of parameters: the plan, its cells, the store, the engines. `tkf.sweep(plan)` runs one."""

from .._lazy import callable_package, lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {"plan": "Plan read_plan ready differences", "result": "SweepResult", "estimates": "estimate"},
)
callable_package(__name__)
