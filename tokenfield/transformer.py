"""The model: a Transformer."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._check import as_float, count, items, number, positive_number
from ._explained import Explained
from ._shown import did_you_mean, shown
from ._types import Number
from .attention import AbstractAttention, AbstractHead, Measure, MultiHead
from .attention.measure import AtomicMeasure
from .attention.parameters import Bilinear, Parameter
from .attention.positions import Positions, as_rules
from .mlp import MLP
from .noise import AbstractNoise
from .normalization import AbstractNorm, AbstractTokenMap, NoNorm, PostLN, Projected
from .spaces import AbstractSpace, Euclidean, Sphere

T = TypeVar("T", bound=eqx.Module)
PARTS = ("attention", "norm", "mlp", "noise")  # `replace` also takes the arguments of these
SHARED = ("final", "context", "encoder")  # shared by all layers of a model


class Transformer(Explained, eqx.Module):
    """A Transformer: an attention, a normalization rule and, optionally, an MLP and noise.

    Args:
        attention: any attention, e.g. `Softmax(beta=9.0)` or `MultiHead([...])`.
        norm: the normalization rule; none by default (the free flow in R^d).
        mlp: a token-wise MLP, added to the attention in the flow, a second sublayer in `layers`.
        noise: noise on every token, e.g. `SphereNoise(kappa=4.0)` under Post-LN, `EuclideanNoise(kappa=4.0)` without a
            norm. Runs of tokens then need a seed.
        fisher_rao: the rate c at which the weights of tokens grow, `m_i' = c m_i (phi_i - sum_j m_j phi_j)` with
            `phi_i = (1/beta) sum_j m_j e^{beta<x_i,x_j>}`: the Wasserstein–Fisher–Rao flow (unnormalized attention, Post-LN).
            None keeps the weights fixed.
        breakpoints: times at which A(t), V(t), … jump. The integrator stops and restarts there.
        context: another measure nu, e.g. `Tokens`, for cross-attention: queries come from the tokens, keys and values from nu
            (FORMULAS §13). Without `cross`, the tokens attend to the context only.
        cross: an attention to the context, a sublayer after `attention`, by which the tokens attend to themselves. A decoder is
            `Transformer(Softmax(..., causal=True), norm, mlp, cross=Softmax(...), context=nu)`.
        mlp_norm, cross_norm: the norms of these sublayers, if they differ from that of the attention.
        encoder: the Transformer that moves the context while the tokens move; they read it as the encoder's own sublayers do.
            None keeps the context fixed, and the tokens read it as it is.
        space: the space in which tokens stay, in place of a norm: `x' = P_x A(x)` (see `Projected`), e.g. `Torus()`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        Transformer(Softmax(beta=9.0), norm=PostLN())
        >>> tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN(), context=tkf.uniform_sphere(64, 3, seed=1))
        Transformer(Softmax(beta=4.0), norm=PostLN(), context=Tokens(n=64, d=3))
    """

    attention: AbstractAttention
    norm: AbstractNorm
    mlp: MLP | None
    noise: AbstractNoise | None
    fisher_rao: Array | None
    breakpoints: tuple[float, ...] = eqx.field(static=True)
    context: AtomicMeasure | None
    cross: AbstractAttention | None
    encoder: "Transformer | None"
    mlp_norm: AbstractNorm | None
    cross_norm: AbstractNorm | None
    final: AbstractTokenMap | None
    """A map of tokens after the last of `depth` layers."""
    depth: int | None = eqx.field(static=True)
    """The number of layers whose weights the model holds (see `by_layer`): every array then has a leading axis of this length.
    None if all layers are the same."""
    repeats: int | None = eqx.field(static=True)
    """How many times the stack of layers is repeated before `final`; None for once."""

    def __init__(
        self,
        attention: AbstractAttention,
        norm: AbstractNorm | None = None,
        mlp: MLP | None = None,
        breakpoints: Sequence[float] = (),
        noise: AbstractNoise | None = None,
        fisher_rao: Number | None = None,
        context: AtomicMeasure | None = None,
        cross: AbstractAttention | None = None,
        encoder: "Transformer | None" = None,
        mlp_norm: AbstractNorm | None = None,
        cross_norm: AbstractNorm | None = None,
        space: AbstractSpace | None = None,
    ):
        if not isinstance(attention, AbstractAttention):
            raise ValueError(f"attention must be an attention such as Softmax(beta=1.0), got {shown(attention)}")
        if not (space is None or isinstance(space, AbstractSpace)):
            raise ValueError(f"space must be a space such as Torus() or None, got {shown(space)}")
        if not (space is None or norm is None):
            raise ValueError(f"space: give a space or a norm, not both: {type(norm).__name__} has a space of its own")
        norm = _staying_in(space) if norm is None else norm
        if not isinstance(norm, AbstractNorm):
            raise ValueError(f"norm must be a normalization rule such as PostLN(), got {shown(norm)}")
        if not (mlp is None or isinstance(mlp, MLP)):
            raise ValueError(f"mlp must be an MLP or None, got {shown(mlp)}")
        if not (noise is None or isinstance(noise, AbstractNoise)):
            raise ValueError(f"noise must be a noise such as EuclideanNoise(kappa=4.0) or None, got {shown(noise)}")
        if not (context is None or isinstance(context, AtomicMeasure)):
            raise ValueError(f"context must be a measure such as Tokens(x), got {shown(context)}")
        if not (cross is None or isinstance(cross, AbstractAttention)):
            raise ValueError(f"cross must be an attention such as Softmax(beta=1.0) or None, got {shown(cross)}")
        if not (encoder is None or isinstance(encoder, Transformer)):
            raise ValueError(f"encoder must be a Transformer or None, got {shown(encoder)}")
        if context is None and not (cross is None and encoder is None):
            raise ValueError(
                f"{'encoder' if cross is None else 'cross'} needs a context: the measure that is attended to"
            )
        breakpoints = [number("each of breakpoints", time) for time in items("breakpoints", breakpoints, "times")]
        self.attention = attention
        self.norm = norm
        self.mlp = mlp
        self.noise = noise
        self.fisher_rao = None if fisher_rao is None else positive_number("fisher_rao", fisher_rao, or_zero=True)
        self.breakpoints = tuple(sorted(breakpoints))
        self.context = context
        self.cross = cross
        self.encoder = encoder
        for name, part in (("mlp_norm", mlp_norm), ("cross_norm", cross_norm)):
            if not (part is None or isinstance(part, AbstractNorm)):
                raise ValueError(f"{name} must be a normalization rule or None, got {shown(part)}")
        self.mlp_norm, self.cross_norm = mlp_norm, cross_norm
        self.final = self.depth = self.repeats = None

    @property
    def beta(self) -> Parameter:
        """The inverse temperature of the only head, a number or a function of time; None if it has a matrix A instead.

        Example:
            >>> import tokenfield as tkf
            >>> float(tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN()).beta)
            9.0
        """
        heads = self.attention.heads
        if len(heads) != 1:
            raise AttributeError(f"beta: this model has {len(heads)} heads: see model.attention.heads")
        return heads[0].beta  # type: ignore[attr-defined]  # Hardmax has none, and says so

    def arguments(self):
        layered = {name: getattr(self, name) for name in ("final", "depth", "repeats")}
        given = super().arguments() | {"space": None, "breakpoints": self.breakpoints}
        return given | {name: value for name, value in layered.items() if value is not None}

    def replace(self, **changes: Any) -> "Transformer":
        """Return the same model with other arguments: its own, or those of its attention, norm, MLP or noise.

        The new values may be traced, so `jax.grad(lambda beta: f(model.replace(beta=beta)))` works. For any other change use
        Equinox's `eqx.tree_at`.

        Example:
            >>> import tokenfield as tkf
            >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
            >>> model.replace(beta=4.0)
            Transformer(Softmax(beta=4.0), norm=PostLN())
            >>> model.replace(norm=tkf.NGPT(alpha=0.5)).replace(alpha=0.25)
            Transformer(Softmax(beta=9.0), norm=NGPT(alpha=0.25))
        """
        if self.depth is not None:
            raise ValueError("replace: this model has weights by layer: use with_norm, with_scale, with_positions, …")
        given = self.arguments()
        own = {name: value for name, value in changes.items() if name in given}
        if own.get("space") is not None:
            own = {"norm": None} | own
        parts = {name: part for name in PARTS if (part := own.get(name, given[name])) is not None}
        inner: dict[str, dict[str, Any]] = {name: {} for name in parts}
        for name in changes.keys() - own.keys():
            homes = [home for home, part in parts.items() if name in part.arguments()]
            if len(homes) != 1:
                raise ValueError(
                    f"replace: {name} is not an argument of this model: {_hint(name, given, parts, homes)}"
                )
            inner[homes[0]][name] = changes[name]
        return super().replace(**own, **{name: parts[name].replace(**each) for name, each in inner.items() if each})

    @property
    def space(self) -> AbstractSpace:
        """The space in which tokens are compared: that of the norm."""
        return self.norm.space

    @property
    def isotropic(self) -> bool:
        """True if the flow commutes with rotations (and so stays in the span of the tokens)."""
        plain = self.mlp is None and self.noise is None and self.context is None
        return plain and self.attention.isotropic and self.norm.isotropic

    def sublayers(
        self, t: Float[Array, ""], w: Float[Array, " n"], positions: Float[Array, " n"], unit: bool = False
    ) -> tuple[Callable[[Float[Array, "n d"]], Float[Array, "n d"]], ...]:
        """Return the sublayers at time t, as functions of their input tokens: attention, cross-attention, the MLP."""
        attention = lambda x: self.attention.of_itself(t, Measure(x, w, positions), unit)  # noqa: E731
        nu, cross, lower = self.context, self.cross, self.space.lower
        if nu is not None and cross is None:
            attention = lambda x: self.attention(t, lower(x), nu, positions)  # noqa: E731
        elif self.space.indefinite:  # scores are inner products of the space
            attention = lambda x: self.attention(t, lower(x), Measure(x, w, positions), positions)  # noqa: E731
        found: list[Callable] = [attention]
        if nu is not None and cross is not None:
            relative = jnp.exp(cross.log_unit - self.attention.log_unit)
            found.append(lambda x: relative.astype(x.dtype) * cross(t, lower(x), nu, positions))
        if self.mlp is not None:
            scale = jnp.exp(-self.attention.log_unit)
            found.append(lambda x: scale.astype(x.dtype) * self.mlp(x))  # type: ignore[misc]
        return tuple(found)

    @property
    def norms(self) -> tuple[AbstractNorm, ...]:
        """The norm of each of the `sublayers`."""
        cross = () if self.cross is None else (self.cross_norm or self.norm,)
        return (self.norm, *cross, *(() if self.mlp is None else (self.mlp_norm or self.norm,)))

    def at_layer(self, index: int | Array) -> "Transformer":
        """Return the model of layer `index`, counted from 0 and cyclically; the model itself if all layers are the same."""
        if self.depth is None:
            return self
        shared = {name: getattr(self, name) for name in SHARED}
        one = _picked(_replaced(self, **dict.fromkeys(SHARED)), jnp.asarray(index, int) % self.depth)
        return _replaced(one, **shared, depth=None)

    @property
    def length(self) -> int | None:
        """The number of layers after which `final` acts; None if all layers are the same."""
        return None if self.depth is None else self.depth * (self.repeats or 1)

    def without_mlp(self) -> "Transformer":
        """Return the same model without its MLP."""
        return _replaced(self, mlp=None, mlp_norm=None)

    def with_norm(self, norm: AbstractNorm) -> "Transformer":
        """Return the same model with another norm around every sublayer, and none after the last layer."""
        if not isinstance(norm, AbstractNorm):
            raise ValueError(f"norm must be a normalization rule such as PreLN(), got {shown(norm)}")
        return _replaced(self, norm=self._in_all_layers(norm), mlp_norm=None, cross_norm=None, final=None)

    def with_scale(self, beta: Number) -> "Transformer":
        """Return the same model with beta as the scale of all scores, `<Qx, Ky>` times beta: e.g. `gamma log n` for `1/sqrt(k)`."""
        value = self._in_all_layers(as_float("beta", beta, 0))

        def scaled(head: AbstractHead) -> AbstractHead:
            if not isinstance(head.score.beta, Array):
                raise ValueError(f"beta: {type(head).__name__} has no scale beta that is a number")
            return eqx.tree_at(lambda head: head.score.beta, head, value)

        return self._with_heads(scaled)

    def with_positions(self, positions: Positions) -> "Transformer":
        """Return the same model with other rules for positions, e.g. None or `ALiBi(1.0)`, in all heads."""
        rules = self._in_all_layers(as_rules(positions))
        return self._with_heads(lambda head: eqx.tree_at(lambda head: head.positions, head, rules))

    def without_heads(self, heads: Sequence[int]) -> "Transformer":
        """Return the same model without some heads, numbered from 0, in every layer."""
        attention = self.attention
        if not isinstance(attention, MultiHead):
            raise ValueError(f"heads: the attention is one {type(attention).__name__}, not a MultiHead")
        heads = items("heads", heads, "numbers of heads")
        every = range(len(attention.parts))
        left = [index for index in every if index not in heads]
        if not left or not all(index in every for index in heads):
            raise ValueError(f"heads must be some of 0 to {every[-1]}, but not all of them, got {shown(list(heads))}")
        pick = lambda items: None if items is None else tuple(items[index] for index in left)  # noqa: E731
        parts = pick(attention.parts), pick(attention.outputs), pick(attention.offsets)
        return _replaced(self, attention=_replaced(attention, parts=parts[0], outputs=parts[1], offsets=parts[2]))

    def repeated(self, k: int) -> "Transformer":
        """Return the same layers k times one after another (a looped Transformer); `final` acts after the last of them."""
        if self.depth is None:
            raise ValueError("k: all layers of this model are the same: give `layers` a larger depth instead")
        return _replaced(self, repeats=(self.repeats or 1) * count("k", k))

    def continuous(self, depth: int | None = None) -> "Transformer":
        """Return the same model for `simulate`: layer l acts from time l to l + 1, the last one forever, without `final`.

        Args:
            depth: take only the first `depth` layers; all of them by default.
        """
        if depth is not None:
            depth = count("depth", depth)
        if depth is None or self.depth is None:
            return _replaced(self, final=None)
        if depth > self.depth:
            raise ValueError(f"depth must be at most {self.depth}, the number of layers with weights, got {depth}")
        shared = {name: getattr(self, name) for name in SHARED}
        first = jax.tree.map(
            lambda leaf: leaf[:depth] if eqx.is_array(leaf) else leaf, _replaced(self, **dict.fromkeys(SHARED))
        )
        return _replaced(first, **shared | {"final": None}, depth=depth, repeats=None)

    def _in_all_layers(self, part: Any) -> Any:
        """Return a part with its arrays repeated for every layer."""
        if self.depth is None:
            return part
        repeat = lambda leaf: jnp.broadcast_to(leaf, (self.depth, *leaf.shape)) if eqx.is_array(leaf) else leaf  # noqa: E731
        return jax.tree.map(repeat, part)

    def _with_heads(self, change: Callable[[AbstractHead], AbstractHead]) -> "Transformer":
        """Return the model with changed heads."""
        if isinstance(self.attention, MultiHead):
            parts = tuple(change(head) for head in self.attention.parts)
            return _replaced(self, attention=_replaced(self.attention, parts=parts))
        if isinstance(self.attention, AbstractHead):
            return _replaced(self, attention=change(self.attention))
        raise ValueError(f"attention must be a head or a MultiHead, got {type(self.attention).__name__}")

    def check(self, d: int) -> None:
        """Raise a ValueError if any part does not fit tokens in R^d."""
        if self.depth is not None:
            return self.at_layer(0).check(d)
        others = (self.mlp_norm, self.cross_norm, self.final)
        for part in (self.attention, self.norm, self.mlp, self.noise, self.cross, *others):
            if part is not None:
                part.check(d)
        if self.encoder is not None:
            self.encoder.check(d)
        for head in (*self.attention.heads, *(() if self.cross is None else self.cross.heads)):
            if self.space.indefinite and not isinstance(head.score, Bilinear):
                raise ValueError(
                    f"attention: {type(head).__name__} compares tokens by distances of R^d, not by the inner product of "
                    f"{type(self.space).__name__}: use Softmax, Unnormalized, Linear, …"
                )
        if self.context is not None and self.context.x.shape[1] != d:
            raise ValueError(f"context must hold tokens in R^{d}, like the state, got R^{self.context.x.shape[1]}")


@eqx.filter_jit  # one program instead of one for each array
def _picked(tree: T, index: Array) -> T:
    """Return entry `index` of each array of a tree."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


def _staying_in(space: AbstractSpace | None) -> AbstractNorm:
    """Return the norm that keeps tokens in a space."""
    if space is None or isinstance(space, Euclidean):
        return NoNorm()
    return PostLN() if isinstance(space, Sphere) else Projected(space)


def _replaced(part: T, **fields: Any) -> T:
    """Return a module with other fields. They are not checked, because arrays may have an axis of layers."""
    given = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}  # type: ignore[arg-type]
    made = object.__new__(type(part))
    for name, value in (given | fields).items():
        object.__setattr__(made, name, value)
    return made


def by_layer(models: Sequence[Transformer], final: AbstractTokenMap | None = None) -> Transformer:
    """Return one model with the weights of several models of the same shape: layer l is that of `models[l]`.

    Args:
        models: one model for each layer. If they have a context and an encoder, these must be the same objects.
        final: a map of tokens after the last layer.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.by_layer([tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PreLN()) for beta in (1.0, 2.0, 4.0)]).depth
        3
    """
    models = items("models", models, "Transformers")
    if not models or not all(isinstance(model, Transformer) for model in models):
        raise ValueError(f"models must be a non-empty list of Transformers, got {shown(models)}")
    if not (final is None or isinstance(final, AbstractTokenMap)):
        raise ValueError(f"final must be a map of tokens such as LayerNorm() or None, got {shown(final)}")
    first = models[0]
    if any(model.depth is not None for model in models):
        raise ValueError("models must be single layers, got one that has weights by layer itself")
    if any(model.context is not first.context or model.encoder is not first.encoder for model in models):
        raise ValueError("models must all have the same context and the same encoder")
    bare = [_replaced(model, **dict.fromkeys(SHARED)) for model in models]
    leaves, structures = zip(*(jax.tree.flatten(model) for model in bare), strict=True)
    shapes = [[jnp.shape(leaf) for leaf in each] for each in leaves]
    if any(structure != structures[0] for structure in structures) or any(shape != shapes[0] for shape in shapes):
        raise ValueError("models must be of one kind and of equal shapes; `layers` takes a list of any models")
    stacked = [jnp.stack(each) if eqx.is_array(each[0]) else each[0] for each in zip(*leaves, strict=True)]
    model = jax.tree.unflatten(structures[0], stacked)
    return _replaced(model, final=final, context=first.context, encoder=first.encoder, depth=len(models))


def _hint(name: str, given: Mapping[str, Any], parts: Mapping[str, Any], homes: Sequence[str]) -> str:
    if homes:
        return f"{' and '.join(homes)} have one each, so replace one of them"
    if isinstance(parts["attention"], MultiHead) and name == "beta":
        return "it has several heads: use with_scale, or replace(attention=…)"
    return did_you_mean(name, [*given, *(key for part in parts.values() for key in part.arguments())], "known names")


def only_transformer(model: Any) -> Transformer:
    """Return `model`, or raise ValueError if it is not a Transformer."""
    if isinstance(model, Transformer):
        return model
    hint = ": wrap it, Transformer(attention, norm)" if isinstance(model, AbstractAttention) else ""
    raise ValueError(f"model must be a Transformer, got {type(model).__name__}{hint}")
