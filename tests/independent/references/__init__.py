"""Reference implementations: nothing here imports tokenfield or JAX."""
