"""Mean shift on real data, beside scikit-learn's (flat kernel)."""

import numpy as np
import pytest
from sklearn.cluster import MeanShift as FlatMeanShift
from sklearn.cluster import estimate_bandwidth
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tokenfield.clustering import MeanShift


def wine():
    data = load_wine()
    return StandardScaler().fit_transform(data.data), data.target


def digits():
    data = load_digits()
    return data.data[:600], data.target[:600]


@pytest.mark.slow
# The two kernels differ, so no number of clusters is asserted: a Gaussian of width R/2.8 and a ball of radius R give 15 and
# 14 for wine, 39 and 27 for digits. R is the share of scikit-learn's estimate that suits the flat kernel best.
@pytest.mark.parametrize(("data", "share", "index"), [(wine, 0.8, 0.7), (digits, 0.6, 0.6)])
def test_as_good_as_scikit_learn_at_a_matched_bandwidth(data, share, index):
    X, truth = data()
    with threadpool_limits(1):  # its threads wait for each other for minutes on a busy machine
        radius = share * estimate_bandwidth(X, quantile=0.2)
        flat = FlatMeanShift(bandwidth=radius).fit(X)
    ours = MeanShift(bandwidth=radius / 2.8).fit(X)
    assert adjusted_rand_score(truth, ours.labels_) > index
    assert adjusted_rand_score(truth, flat.labels_) > index
    assert np.array_equal(ours.predict(X), ours.labels_)


def test_blurring_separates_wine():
    X, truth = wine()
    labels = MeanShift(bandwidth=estimate_bandwidth(X, quantile=0.2) / 4, blurring=True).fit_predict(X)
    assert adjusted_rand_score(truth, labels) > 0.8
