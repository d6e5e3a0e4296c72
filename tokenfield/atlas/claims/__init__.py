"""The claims, one a file; each file ends with a `CLAIM`."""
