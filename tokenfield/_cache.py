"""Cache of compiled programs on disk, so that the second run of a kind starts at once."""

import os
import sys
from pathlib import Path

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def keep_compiled_code() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX already has a folder. Imports no JAX.

    Without a home folder, as in some containers, there is no cache.
    """
    home = os.path.expanduser("~")  # remains "~" if there is no home folder
    if home == "~" and not os.environ.get("XDG_CACHE_HOME"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(home, ".cache")) / "tokenfield"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(cache, os.W_OK):
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    for name, value in SETTINGS.items():
        os.environ.setdefault(name.upper(), str(value))
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_compilation_cache_dir is None:  # it has read the environment already
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(cache))
        for name, value in SETTINGS.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
