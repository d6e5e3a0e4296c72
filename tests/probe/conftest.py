"""Models that the tests of the probe share."""

import warnings

import pytest

FAMILIES = ("bert", "roberta", "electra", "albert", "llama", "mistral", "qwen2", "gpt2")


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder of a small random model for each family, made when asked for."""
    pytest.importorskip("transformers", reason='pip install -e ".[models]"')
    from small_models import build

    made = {}

    def folder(kind, **options):
        key = kind, *sorted(options.items())
        if key not in made:
            made[key] = build(tmp_path_factory.mktemp(kind), kind, **options)
        return made[key]

    return folder


@pytest.fixture(scope="session")
def small(folders):
    """A small random model for each family, loaded once."""
    from tokenfield.probe.loading import load

    made = {}

    def loaded(kind, **options):
        key = kind, *sorted(options.items())
        if key not in made:
            made[key] = load(folders(kind, **options))
        return made[key]

    return loaded


@pytest.fixture(scope="session")
def installed():
    """A real model of `make models`, loaded once; the test is skipped, with that word, where it is not installed."""
    pytest.importorskip("transformers", reason='pip install -e ".[models]"')
    from small_models import real

    from tokenfield.probe.loading import load

    made = {}

    def loaded(name):
        if name not in made:
            path = real(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name] = load(path, allow_pickle=True)
        return made[name]

    return loaded
