"""Names that are imported when first used."""

import gc

import pytest

from tokenfield._lazy import without_collection


@pytest.mark.parametrize("collecting", [True, False])
def test_imports_leave_the_garbage_collector_as_it_was(collecting):
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with without_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
