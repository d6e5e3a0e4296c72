"""A run as plain data, and the objects that it stands for."""
