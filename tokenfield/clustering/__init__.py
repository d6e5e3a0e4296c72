"""Clustering of data by the dynamics of attention."""

from .mean_shift import MeanShift as MeanShift

__all__ = ["MeanShift"]
