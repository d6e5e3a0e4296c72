"""Real pretrained Transformers: measure collapse, clustering and smoothness. `tkf.probe(model, texts)` does it."""

from .._lazy import callable_package, lazy

__all__, __getattr__, __dir__ = lazy(
    __name__, {"result": "ProbeResult", "influence": "position_influence PositionInfluence"}
)
callable_package(__name__)
