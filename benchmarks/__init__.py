"""Side-by-side timings, as ratios: `make bench`."""
