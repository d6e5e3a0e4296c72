"""JAX in double precision: every module that needs arrays imports them from here or after here."""

import os
import sys

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ.setdefault("JAX_ENABLE_X64", "1")
