"""The random twin: the same architecture, weights of its own rule, the same bits for a seed."""

import numpy as np
import pytest
from small_models import REACTIONS

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe.loading import load  # noqa: E402
from tokenfield.probe.null import random_twin  # noqa: E402


def parameters(loaded):
    return {name: value.numpy() for name, value in loaded.model.state_dict().items()}


@pytest.mark.parametrize("kind", ["bert", "albert", "llama", "gpt2"])
def test_twin_has_the_shapes_of_the_model_and_none_of_its_weights(small, kind):
    loaded = small(kind)
    before = torch.random.get_rng_state()
    twin = random_twin(loaded, seed=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    own, other = parameters(loaded), parameters(twin)
    assert {name: value.shape for name, value in own.items()} == {name: value.shape for name, value in other.items()}
    matrices = [name for name, value in own.items() if value.ndim == 2 and value.size >= 128]  # enough for a variance
    assert matrices
    for name in matrices:
        rows = other[name][1:]  # the row of padding is 0
        assert np.abs(rows - own[name][1:]).max() > 0.1, name
        scale = 0.5 * (2 * 3) ** -0.5 if kind == "gpt2" and name.endswith("c_proj.weight") else 0.5  # initializer_range
        assert rows.std() == pytest.approx(scale, rel=0.25), name
    assert all(not other[name].any() for name in other if name.endswith("bias"))  # the model's own are random
    assert twin.architecture == loaded.architecture
    assert not twin.model.training
    again, another = parameters(random_twin(loaded, seed=3)), parameters(random_twin(loaded, seed=4))
    assert all((again[name] == other[name]).all() for name in other)
    assert (another[matrices[0]] != other[matrices[0]]).any()


def test_a_shared_block_stays_shared_and_keeps_its_iterations(folders):
    from tokenfield.atlas.real_models import gram_statistics
    from tokenfield.probe.hooks import AbstractVisitor, stream
    from tokenfield.probe.texts import padded, windows

    class Count(AbstractVisitor):
        seen = 0

        def hidden(self, layer, x):
            self.seen = max(self.seen, layer)
            assert np.isfinite(gram_statistics(x[0].double().numpy())[0])

    twin = random_twin(load(folders("albert"), iterations=9), seed=0)
    visitor = Count()
    parts = windows(twin.tokenizer, REACTIONS[:1], None)[0]
    stream(twin, padded(parts, twin.tokenizer.pad), visitor)
    assert visitor.seen == 9
    assert len(twin.model.encoder.albert_layer_groups) == 1


def test_seed_is_checked(small):
    with pytest.raises(ValueError, match="seed"):
        random_twin(small("bert"), seed=-1)
