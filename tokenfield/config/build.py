"""From a config to the objects of a run."""

import re
from pathlib import Path
from typing import Any

from .. import attention as kernels
from .. import noise as noises
from .. import normalization, states
from .._shown import shown
from ..mlp import MLP
from ..states.samplers import sphere_points
from ..states.tokens import moved_to
from ..transformer import Transformer
from .matrix_file import read_matrix
from .run import AttentionConfig, MLPConfig, NoiseConfig, NormConfig, RunConfig, TokensConfig

KERNELS = {
    "softmax": "Softmax",
    "l2": "L2",
    "sinkhorn": "Sinkhorn",
    "unnormalized": "Unnormalized",
    "linear": "Linear",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "hardmax": "Hardmax",
}
NORMS = {
    "none": "NoNorm",
    "rescaled": "Rescaled",
    "post": "PostLN",
    "pre": "PreLN",
    "peri": "PeriLN",
    "mix": "MixLN",
    "ngpt": "NGPT",
    "sqrt": "SqrtScaling",
}


def _call(kind: str, factory: Any, options: dict[str, Any]) -> Any:
    """Call a constructor with the options that were given; one that it does not take is an error that says so."""
    import inspect

    taken = inspect.signature(factory).parameters
    unknown = [name for name in options if name not in taken]
    if unknown:
        raise ValueError(f"{kind} takes no {unknown[0]}; it takes {', '.join(taken) or 'no options'}")
    missing = [n for n, p in taken.items() if p.default is inspect.Parameter.empty and n not in options]
    if missing:
        raise ValueError(f"{kind} needs {missing[0]}")
    return factory(**options)


def attention(config: AttentionConfig) -> Any:
    options = config.model_dump(exclude_none=True, exclude={"kind", "heads", "outputs"})
    if config.kind == "multihead":
        if not config.heads:
            raise ValueError("attention.heads must list at least one head for kind = multihead")
        unused = [name for name in options if name != "causal" or config.causal]
        if unused:
            raise ValueError(f"multihead takes no {unused[0]}: give it to its heads")
        return kernels.MultiHead([attention(head) for head in config.heads], config.outputs)
    if config.heads or config.outputs:
        raise ValueError(f"attention.heads and attention.outputs need kind = multihead, got {config.kind}")
    if not config.causal:
        options.pop("causal")
    return _call(config.kind, getattr(kernels, KERNELS[config.kind]), options)


def norm(config: NormConfig) -> Any:
    return _call(
        config.kind, getattr(normalization, NORMS[config.kind]), config.model_dump(exclude_none=True, exclude={"kind"})
    )


def mlp(config: MLPConfig | None) -> Any:
    return None if config is None else MLP(**config.model_dump())


NOISES = {"sphere": "SphereNoise", "common": "CommonNoise", "euclidean": "EuclideanNoise"}


def noise(config: NoiseConfig | None, norm: NormConfig) -> Any:
    """Noise of the kind asked for; by default that of the space in which tokens move."""
    if config is None:
        return None
    kind = config.kind or ("euclidean" if norm.kind == "none" else "sphere")
    return getattr(noises, NOISES[kind])(config.kappa)


def model(config: RunConfig) -> Any:
    return Transformer(
        attention(config.attention),
        norm(config.norm),
        mlp(config.mlp),
        noise=noise(config.noise, config.norm),
        fisher_rao=config.fisher_rao,
    )


def tokens(config: TokensConfig, seed: int | None = None, like: Any = None) -> Any:
    """The start of a config, with another seed if one is given. `like`: tokens of that config for some other seed, from
    which they can be made in a tenth of the time."""
    seed = config.seed if seed is None else seed
    match config.kind:
        case "sphere" if like is not None:
            return moved_to(like, sphere_points(config.n, config.d, seed))
        case "sphere":
            return states.uniform_sphere(config.n, config.d, seed)
        case "gaussian":
            return states.gaussian_tokens(config.n, config.d, seed, cov=config.cov)
        case "hemisphere":
            return states.hemisphere(config.n, config.d, seed)
        case "equiangular":
            return states.equiangular_tokens(config.rho, config.n, config.dimension)
        case "clusters":
            return states.separated_clusters(config.n, config.d, config.k, config.spread, seed)
        case "circle":
            if config.angles is None:
                raise ValueError("tokens.angles must list the angles for kind = circle")
            return states.circle_tokens(config.angles)
        case _:
            if config.file is None:
                raise ValueError("tokens.file must name a .npy or text file for kind = file")
            return states.Tokens(read_matrix("tokens.file", Path(config.file)))


RULES = "one-cluster, clusters<=K, order>=R, energy-settled, energy-settled<=RATE"
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"


def stop_rule(text: str | None) -> Any:
    """A stop rule from its name."""
    if text is None:
        return None
    from .. import observables

    rule = text.replace(" ", "").lower()
    if rule == "one-cluster":
        return observables.one_cluster()
    if rule == "energy-settled":
        return observables.energy_settled()
    if found := re.fullmatch(rf"energy-settled<=({NUMBER})", rule):
        return observables.energy_settled(float(found[1]))
    if found := re.fullmatch(r"clusters<=(\d+)", rule):
        return observables.at_most_clusters(int(found[1]))
    if found := re.fullmatch(rf"order>=({NUMBER})", rule):
        if not 0 < float(found[1]) <= 1:
            raise ValueError(f"stop_when: R of order>=R must lie in (0, 1], got {shown(text)}")
        return observables.order_above(float(found[1]))
    raise ValueError(f"stop_when must be one of {RULES}, got {shown(text)}")
