"""Measure collapse, clustering and smoothness of real pretrained Transformers: `tkf.probe(model, texts)`."""

from .._lazy import callable_package, lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "result": "ProbeResult",
        "influence": "position_influence PositionInfluence",
        "packages": "model_path english_text reactions",
    },
)
callable_package(__name__)
