"""The table of predictions: its numbers are those of the functions, and what does not apply is marked."""

import math

import numpy as np
import pytest
from cases import PREDICTED

import tokenfield as tkf
from tokenfield.lipschitz import bounds
from tokenfield.theory.equiangular import initial_velocity, time_to_cosine
from tokenfield.theory.names import kernel_name
from tokenfield.theory.noise import beta_star, critical_kappa
from tokenfield.theory.pairs import pair_merge_time
from tokenfield.theory.prediction import Prediction, predict


def table(*arguments, **options):
    rows = predict(*arguments, **options)
    assert [row.key for row in rows] == PREDICTED
    assert all(isinstance(row, Prediction) and row.name and row.formula and row.section for row in rows)
    assert all(row.note for row in rows if not row.valid or row.value is None)
    return {row.key: row for row in rows}


def valid(rows):
    return {key for key, row in rows.items() if row.valid}


def test_numbers_of_an_isotropic_model():
    rows = table(32, 64, 4.0)
    assert rows["initial_velocity"].value == pytest.approx(2 / (math.exp(4) + 31), rel=1e-12)
    assert rows["time_to_collapse"].value == pytest.approx(6.95350, abs=5e-6)
    assert rows["terminal_rate"].value == 2
    assert rows["critical_kappa"].value == pytest.approx(critical_kappa(4.0, 64, "softmax"))
    assert rows["transition"].value == "continuous"
    assert rows["beta_star"].value == pytest.approx(beta_star(64))
    assert rows["gamma"].value == pytest.approx(4 / math.log(32))
    assert rows["lipschitz_sharp_upper"].value == pytest.approx(math.sqrt(32) * 5 + 4, rel=1e-12)
    assert rows["lipschitz_lower"].value == 1  # |V|, as sqrt(31)/(1 + 31/e) is less
    sharper = table(32, 64, 20.0)["lipschitz_lower"].value
    assert sharper == pytest.approx(math.sqrt(31) / (1 + 31 * math.exp(-5)), rel=1e-12)
    assert rows["lipschitz_mean_field"].value == pytest.approx(13 * math.exp(8), rel=1e-12)
    assert valid(rows) == {*PREDICTED} - {"first_clusters", "critical_gamma", "beta_star"}


def test_circle():
    rows = table(100, 2, 7.0, rho0=0.5, attention="Unnormalized")
    assert rows["first_clusters"].value == 4
    assert rows["beta_star"].value == pytest.approx(2.446918311, abs=1e-9)
    assert rows["transition"].value == "first order"
    assert rows["critical_kappa"].value == pytest.approx(critical_kappa(7.0, 2))
    assert rows["critical_gamma"].value == 2
    assert rows["terminal_rate"].value == pytest.approx(2 * math.exp(7))
    marked = {"initial_velocity", "time_to_collapse", "critical_gamma"}
    marked |= {"lipschitz_sharp_upper", "lipschitz_lower", "lipschitz_mean_field"}
    assert valid(rows) == {*PREDICTED} - marked
    assert "need d >= 100" in rows["initial_velocity"].note
    assert "softmax" in rows["critical_gamma"].note


@pytest.mark.parametrize("angle", [90.0, 60.0, 150.0])
def test_lifetime_ends_half_way_up_in_energy(angle):
    beta, rho0 = 12.0, math.cos(math.radians(angle))
    energy = lambda rho: 0.5 + 0.5 * math.exp(beta * (rho - 1))  # noqa: E731
    row = table(10, 2, beta, angle=angle)["pair_lifetime"]
    half = (energy(rho0) + 1) / 2
    rho1 = 1 + math.log(2 * half - 1) / beta
    assert energy(rho1) == pytest.approx(half)
    assert row.value == pytest.approx(pair_merge_time(rho0, rho1, beta), rel=1e-11)
    assert row.valid


def test_a_pair_that_is_not_metastable_is_marked():
    row = table(10, 2, 1.0)["pair_lifetime"]
    assert row.value == pytest.approx(pair_merge_time(0.0, 1 + math.log((1 + math.exp(-1)) / 2), 1.0), rel=1e-10)
    assert not row.valid
    assert "not metastable" in row.note


@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("post", {}, tkf.PostLN()),
        ("PRE", {}, tkf.PreLN()),
        ("peri", {}, tkf.PeriLN()),
        ("mix", {"tau": 0.5}, tkf.MixLN(0.5)),
        ("ngpt", {"alpha": 0.3}, tkf.NGPT(0.3)),
        ("sqrt", {}, tkf.SqrtScaling()),
    ],
)
def test_norms(name, options, rule):
    rows = table(6, 8, 2.0, name, rho0=0.1, radius=3.0, **options)
    r0 = 3.0 if name in ("PRE", "peri") else 1.0
    assert rows["initial_velocity"].value == pytest.approx(initial_velocity(6, 2.0, rule, rho0=0.1, radius=r0))
    assert rows["time_to_collapse"].value == pytest.approx(time_to_cosine(0.999, 6, 2.0, rule, rho0=0.1, radius=r0))
    assert rows["lipschitz_sharp_upper"].value == pytest.approx(bounds(2.0, None, 3.0, 6).sharp_upper)
    assert rows["critical_kappa"].valid == (name == "post")
    assert rows["pair_lifetime"].valid is False  # beta (1 - rho) = 2 is below log 10
    assert rows["terminal_law"].valid
    if not options:
        same = table(6, 8, 2.0, rule, rho0=0.1, radius=3.0)
        assert {key: row.value for key, row in same.items()} == {key: row.value for key, row in rows.items()}


def test_general_matrices_go_to_the_lipschitz_bounds_and_mark_the_rest():
    A, V = np.array([[0.0, 2.0], [-1.0, 0.3]]), np.array([[1.0, 0.5], [0.0, 2.0]])
    rows = table(20, 2, 3.0, A=A, V=V, R=1.3)
    found = bounds(A, V, 1.3, 20)
    for field in ("sharp_upper", "lower", "mean_field"):
        assert rows[f"lipschitz_{field}"].value == pytest.approx(getattr(found, field), rel=1e-12)
    assert valid(rows) == {"lipschitz_sharp_upper", "lipschitz_lower", "lipschitz_mean_field"}
    assert rows["first_clusters"].value is not None  # that of beta I, marked
    without = table(20, 2, None, A=A)
    assert without["first_clusters"].value is None
    assert "needs beta" in without["first_clusters"].note
    assert valid(table(20, 2, 3.0, V=V)) == valid(rows)


def test_a_multiple_of_the_identity_is_isotropic():
    plain, given = table(20, 2, 7.0), table(20, 2, None, A=7 * np.eye(2), V=np.eye(2))
    assert {k: (r.value, r.valid) for k, r in plain.items()} == {k: (r.value, r.valid) for k, r in given.items()}
    assert not table(20, 2, 3.0, A=7 * np.eye(2))["first_clusters"].valid


def test_validity_of_the_first_clusters():
    assert table(64, 2, 100.0)["first_clusters"].valid
    few = table(20, 2, 100.0)["first_clusters"]
    assert few.value == 14
    assert not few.valid
    assert "20 tokens are too few to show mode 14" in few.note
    sphere = table(1000, 3, 9.0)["first_clusters"]
    assert not sphere.valid
    assert "degree" in sphere.note


def test_critical_gamma():
    below = table(1000, 1000, 5.0, rho0=0.5)["critical_gamma"]
    assert below.valid
    assert "is below it" in below.note
    assert "not below it" in table(1000, 1000, 15.0, rho0=0.5)["critical_gamma"].note
    negative = table(5, 5, 5.0, rho0=-0.2)["critical_gamma"]
    assert not negative.valid
    assert "holds for rho > 0" in negative.note


def test_noise_is_compared_with_the_critical_one():
    assert "kappa = 1.8 is above it" in table(50, 2, 1.0, attention="unnormalized", kappa=1.8)["critical_kappa"].note
    assert (
        "kappa = 1.7 is not above it" in table(50, 2, 1.0, attention="unnormalized", kappa=1.7)["critical_kappa"].note
    )


def test_large_beta_is_told_in_logarithms():
    rows = table(5, 2, 1e4, attention="unnormalized", angle=120.0)
    logarithm = math.log(critical_kappa(1e4, 2, log_unit=1e4)) - 1e4
    for key in ("critical_kappa", "pair_lifetime", "terminal_rate", "terminal_law"):
        assert rows[key].value is None
        assert "beyond double range" in rows[key].note
    assert f"e^{logarithm:.8g}" in rows["critical_kappa"].note
    softmax = table(5, 2, 1e4)
    assert f"e^{pair_merge_time(0.0, 0.9999, 1e4, log=True):.4f}"[:8] in softmax["pair_lifetime"].note
    assert softmax["pair_lifetime"].valid
    assert softmax["lipschitz_mean_field"].value == math.inf
    assert "e^20010.3" in softmax["lipschitz_mean_field"].note


def test_edges():
    alone = table(1, 2, 1.0)
    for key in ("initial_velocity", "terminal_law", "time_to_collapse", "gamma"):
        assert alone[key].value is None
        assert not alone[key].valid
    balanced = table(5, 4, 1.0, rho0=-0.25)
    assert balanced["time_to_collapse"].value == math.inf
    assert "is stationary" in balanced["time_to_collapse"].note
    assert table(5, 8, 1.0, rho0=0.9995)["time_to_collapse"].value == 0.0
    assert table(5, 3, 0.0)["critical_kappa"].value == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 3, 1.0), {}, "n must be a whole number >= 1, got 0"),
        ((5, 1, 1.0), {}, "d must be a whole number >= 2, got 1"),
        ((5, 3, -1.0), {}, "beta must be finite and >= 0, got -1.0"),
        ((5, 3, None), {}, "beta must be a number"),
        ((5, 3, 1.0, "perri"), {}, "got 'perri': did you mean 'peri'"),
        ((5, 3, 1.0, "none"), {}, "norm must be one of mix, ngpt, peri, post, pre, sqrt or a rule such as PostLN()"),
        ((5, 3, 1.0, "mix"), {}, "norm mix needs tau"),
        ((5, 3, 1.0, "post"), {"tau": 1.0}, "norm post takes no tau"),
        ((5, 3, 1.0, "ngpt"), {"alpha": -1.0}, "alpha must be finite and > 0"),
        ((5, 3, 1.0, tkf.NGPT()), {"alpha": 1.0}, "alpha belongs to the norm itself"),
        ((5, 3, 1.0, "post", "linear"), {}, "attention must be"),
        ((5, 3, 1.0), {"A": np.eye(2)}, r"A must have shape \(3, 3\)"),
        ((5, 3, 1.0), {"V": np.eye(2)}, r"V must have shape \(dv, 3\)"),
        ((5, 3, 1.0), {"rho0": -0.5}, r"rho0 must lie in \[-1/\(n-1\), 1\) = \[-0.25, 1\), got -0.5"),
        ((5, 3, 1.0), {"rho0": 1.0}, "rho0 must lie in"),
        ((5, 3, 1.0), {"angle": 180.0}, "angle must lie between 0 and 180 degrees, got 180.0"),
        ((5, 3, 1.0), {"radius": 0.0}, "radius must be finite and > 0|R must be"),
        ((5, 3, 1.0), {"kappa": -1.0}, "kappa must be finite and > 0"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        predict(*arguments, **options)


def test_kernels_are_known_by_name_class_and_object():
    for kernel, name in ((tkf.Softmax, "softmax"), (tkf.Unnormalized, "unnormalized")):
        assert kernel_name(kernel) == kernel_name(kernel(1.0)) == kernel_name(name.upper()) == name
    with pytest.raises(ValueError, match=r'attention must be "softmax" or "unnormalized", got .*L2'):
        kernel_name(tkf.L2(1.0))

    class Softmax:
        """Another thing of that name."""

    with pytest.raises(ValueError, match="attention must be"):
        kernel_name(Softmax)


def test_the_table_is_indexed_by_key_and_shows_itself():
    found = tkf.predict(n=32, d=64, beta=4.0)
    assert found["terminal_rate"] is found[2]
    assert found["terminal_rate"].value == 2.0
    assert found[1:3].keys() == ["terminal_law", "terminal_rate"]
    assert [row.key for row in found.valid] == [row.key for row in found if row.valid]
    assert len(found.valid) < len(found) == len(list(found))
    lines = repr(found).splitlines()
    assert lines[0] == "Predictions(softmax, post, n = 32, d = 64, beta = 4)"
    assert lines[3].split()[:2] == ["terminal_rate", "2"]
    page = found._repr_html_()
    assert page.count("<tr") == 1 + len(found)
    assert "<θ" not in page
    with pytest.raises(KeyError, match="did you mean terminal_rate"):
        _ = found["terminal_rat"]
