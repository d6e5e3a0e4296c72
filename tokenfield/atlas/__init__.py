"""Claims of the literature, checked by experiment."""
