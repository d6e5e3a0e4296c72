"""Claims from the literature, checked by experiment."""
