"""The claims, one per file; each file ends with a `CLAIM`."""
