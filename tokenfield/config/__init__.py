"""A run as plain data, and the objects built from it."""
