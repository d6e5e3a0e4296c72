"""Text about clusters, the same in the terminal, figures and reports."""

from collections.abc import Sequence

LISTED = 6


def cluster_text(sizes: Sequence[int]) -> str:
    """Return sizes of clusters as text. A cluster has at least two tokens; single tokens are counted separately.

    Args:
        sizes: as in `tokenfield.clusters(...).sizes`, largest first.

    Example:
        >>> cluster_text([5, 3, 1, 1])
        '2 clusters (sizes 5, 3) and 2 single tokens'
    """
    shared = [int(size) for size in sizes if size > 1]
    single = len(sizes) - len(shared)
    alone = f"{single} single token{'s' * (single != 1)}"
    if not shared:
        return f"no clusters: {alone}"
    if len(sizes) == 1:
        return f"1 cluster of all {shared[0]} tokens"
    if len(shared) == 1:
        held = f"{shared[0]} tokens"
    elif len(shared) <= LISTED:
        held = f"sizes {', '.join(map(str, shared))}"
    else:
        held = f"largest: {shared[0]} tokens"
    return f"{len(shared)} cluster{'s' * (len(shared) != 1)} ({held})" + (f" and {alone}" if single else "")
