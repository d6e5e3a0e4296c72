"""Classes of a user that are wrong, or asked for wrongly: one line that says so."""

import pytest
from commands import assert_one_line_error, tokenfield_here

from tokenfield._kinds import imported
from tokenfield.attention import AbstractAttention
from tokenfield.config.run import read

pytestmark = pytest.mark.usefixtures("inside")

BAD = {
    "attention.kind: nothere:Power: there is no module nothere in the current folder or on sys.path": {
        "attention.kind": "nothere:Power"
    },
    "attention.kind: own_kernel:Powr: module own_kernel has no Powr: did you mean 'Power'?": {
        "attention.kind": "own_kernel:Powr"
    },
    "attention.kind: own_norm:Slower must be a class that derives from AbstractAttention": {
        "attention.kind": "own_norm:Slower"
    },
    "attention.kind: bad:NoPhi does not define phi, as every AbstractPairwise must": {"attention.kind": "bad:NoPhi"},
    "attention.kind: bad:Nothing does not define phi, as": {"attention.kind": "bad:Nothing"},
    "norm.kind: bad:HalfNorm does not define growth, inputs, layer, radial, radius, segments, speed": {
        "norm.kind": "bad:HalfNorm"
    },
    "attention.kind: broken:X: module broken cannot be imported: ZeroDivisionError": {"attention.kind": "broken:X"},
    "attention.kind: must be module:Name, such as my_module:MyClass, got 'a b:c'": {"attention.kind": "a b:c"},
    "unknown key attention.powr: did you mean power?": {"attention.kind": "own_kernel:Power", "attention.powr": 1.0},
    "attention.power: Input should be a valid number, unable to parse string as a number, got 'high'": {
        "attention.kind": "own_kernel:Power",
        "attention.power": "high",
    },
    "noise.g: own_noise:g: module own_noise has no g": {
        "noise.kind": "multiplicative",
        "noise.g": "own_noise:g",
        "noise.kappa": 1.0,
    },
    "observe.m: own_observable:momnt: module own_observable has no momnt: did you mean 'moment'?": {
        "observe.m": "own_observable:momnt"
    },
    "unknown key observe.m.powr: did you mean power?": {
        "observe.m": {"observable": "own_observable:moment", "powr": 1}
    },
    "observe.m: pairwise_cosines is not one number": {"observe.m": "pairwise_cosines"},
    "tokens.kind: must be one of circle, clusters,": {"tokens.kind": "spher"},
    "space.kind: must be one of euclidean, hyperbolic, sphere, torus or your own module:Class, got 'tours': did": {
        "space.kind": "tours"
    },
    "space: give space or norm, not both": {"space.kind": "torus", "norm.kind": "post"},
    "space.kind: bad:HalfSpace does not define chart, check, distance, exp, log, project, retract, sample, signs": {
        "space.kind": "bad:HalfSpace"
    },
}


BAD_FILE = """
from tokenfield.attention import AbstractPairwise
from tokenfield.normalization import AbstractDirectionNorm
from tokenfield.spaces import AbstractSpace
class HalfSpace(AbstractSpace):
    def tangent(self, x, v):
        return v
class Nothing(AbstractPairwise):
    pass
class NoPhi(AbstractPairwise):
    exponential = True
class HalfNorm(AbstractDirectionNorm):
    def check(self, d):
        pass
"""


@pytest.mark.parametrize("message", BAD)
def test_errors_are_one_line(message, folder):
    (folder / "bad.py").write_text(BAD_FILE)
    (folder / "broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match=r".") as error:
        read(None, {"t1": 1.0, **BAD[message]})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_errors_on_the_command_line(capsys):
    result = tokenfield_here(capsys, "simulate", "--attention", "own_kernel:Pow")
    assert_one_line_error(result, "attention.kind: own_kernel:Pow: module own_kernel has no Pow")
    result = tokenfield_here(capsys, "lipschitz", "--attention", "own_kernel:Pow")
    assert_one_line_error(result, "--attention own_kernel:Pow: module own_kernel has no Pow")
    result = tokenfield_here(capsys, "predict", "--norm", "own_norm:Slower", "--set", "norm.pwer=1")
    assert_one_line_error(result, "--set: unknown key norm.pwer: did you mean power?")
    result = tokenfield_here(capsys, "norms", "--json", "--rule", "own_norm:Slower", "--set", "norm.pwer=1")
    assert_one_line_error(result, "options: no rule of own_norm:Slower takes 'pwer': did you mean 'power'?")


def test_a_kind_that_two_classes_claim_is_refused():
    Power = imported("own_kernel:Power")
    assert read(None, {"attention.kind": "power"}).attention.kind == "own_kernel:Power"
    other = type("Power", (Power.__mro__[1],), {"kind": "power", "phi": lambda self, s: s})
    with pytest.raises(ValueError, match=r"attention\.kind: 'power' is the name of .*own_kernel:Power"):
        read(None, {"attention.kind": "power"})
    assert issubclass(other, AbstractAttention)
    del other
