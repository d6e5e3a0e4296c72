"""Models from disk: what is read, what is refused, and in which words."""

import json
import shutil
import sys

import numpy as np
import pytest
from small_models import REACTIONS, as_pickle, build, config, reference

from tokenfield.probe.texts import padded, windows

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe.architecture import detect  # noqa: E402
from tokenfield.probe.loading import load  # noqa: E402


def refused(source, message, **options):
    with pytest.raises(ValueError, match=message) as error:
        load(source, **options)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "norm", "causal", "rotary", "shared", "positions"),
    [
        ("bert", "post-LN", False, False, False, 64),
        ("roberta", "post-LN", False, False, False, 63),  # positions are counted from pad_token_id + 1
        ("albert", "post-LN", False, False, True, 64),
        ("llama", "pre-RMSNorm", True, True, False, 64),
        ("gpt2", "pre-LN", True, False, False, 64),
        ("distilbert", "norm unknown", False, False, False, 512),
    ],
)
def test_the_architecture_is_detected_from_the_config(kind, norm, causal, rotary, shared, positions):
    found = detect(config(kind))
    assert (found.norm_name, found.causal, found.rotary, found.shared_block) == (norm, causal, rotary, shared)
    assert (found.depth, found.heads, found.width, found.head_width) == (3, 4, 16, 4)
    assert found.positions_limit == positions
    assert found.kv_heads == (2 if kind == "llama" else 4)
    assert found.supported == (kind != "distilbert")


def test_attention_that_differs_is_not_supported_and_says_what_is():
    odd = detect(config("bert", position_embedding_type="relative_key"))
    assert not odd.supported
    assert "supported: 'absolute'" in odd.reason
    rope = config("llama")
    rope.rope_parameters = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}
    assert "'yarn' are not supported (supported: default, linear, llama3)" in detect(rope).reason
    assert "cross-attention" in detect(config("gpt2", add_cross_attention=True)).reason


def test_a_pickle_is_read_only_when_allowed_and_gives_the_same_model(folders, tmp_path):
    source, pickled = folders("bert"), as_pickle(folders("bert"), tmp_path / "old")
    refused(pickled, r"holds only pytorch_model.bin, a pickle.*--allow-pickle")
    with pytest.warns(UserWarning, match="restricted reader"):
        old = load(pickled, allow_pickle=True)
    new = load(source)
    assert old.architecture == new.architecture
    assert any("pickle" in note for note in old.notes)
    batch = padded(windows(new.tokenizer, REACTIONS, 64)[0], 0)
    a, b = (reference(loaded, batch).last_hidden_state for loaded in (old, new))
    assert float((a - b).abs().max()) == 0


class Harmful:
    """What a malicious pickle looks like: loading it runs a function."""

    def __reduce__(self):
        return (sys.exit, ("code was run",))


def test_code_in_a_pickle_is_never_run(folders, tmp_path):
    folder = as_pickle(folders("bert"), tmp_path / "harmful")
    torch.save({"bert.embeddings": Harmful()}, folder / "pytorch_model.bin")
    refused(folder, "holds more than tensors, which is never read$", allow_pickle=True)


def test_code_beside_a_model_is_never_run(folders, tmp_path):
    folder = tmp_path / "remote"
    shutil.copytree(folders("bert"), folder)
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "code.py").write_text("raise SystemExit('code was run')\n")
    refused(folder, "cannot be read")


def test_what_is_not_a_model_is_said(tmp_path, folders):
    refused(tmp_path, "is not a model folder: it has neither config.json nor a .gguf file")
    refused(tmp_path / "none" / "such", "there is no folder or file")
    refused(
        "no-such-organization/no-such-model",
        "neither a folder here nor a model in the local cache; nothing is downloaded",
    )
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    refused(file, "is a file: give a model folder or a .gguf file")
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_text("")
    refused(tmp_path, "holds 2 GGUF files: give one of them")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(folders("bert") / "config.json", bare)
    refused(bare, r"holds no weights: expected \*.safetensors")


@pytest.mark.parametrize("kind", ["bert", "llama", "gpt2"])
def test_a_missing_tokenizer_is_said(tmp_path, folders, kind):
    folder = tmp_path / kind
    shutil.copytree(folders(kind), folder)
    (folder / "vocab.txt").unlink()
    refused(folder, "has no tokenizer: expected one of tokenizer.json, vocab.txt")


def test_damaged_files_are_said(tmp_path, folders):
    folder = tmp_path / "damaged"
    shutil.copytree(folders("bert"), folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(folder, "cannot be read, it may be damaged")
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "config.json").write_text("{ broken")
    refused(folder, "config.json is damaged")
    (folder / "config.json").write_text("[1, 2]")
    refused(folder, "config.json is damaged: it must hold names and values, got a list")
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": "wide"}')
    refused(folder, "Validation error for field 'hidden_size': .*wide")
    gguf = tmp_path / "damaged.gguf"
    gguf.write_bytes(b"GGUF" + bytes(64))
    refused(gguf, "cannot be read, it may be damaged")


def test_weights_of_another_model_are_refused(tmp_path, folders):
    folder = tmp_path / "other"
    shutil.copytree(folders("bert"), folder)
    shutil.copy(folders("gpt2") / "model.safetensors", folder)
    refused(folder, "lacks the weights|cannot be read")
    pickled = as_pickle(folders("bert"), tmp_path / "wrong")
    settings = json.loads((pickled / "config.json").read_text())
    (pickled / "config.json").write_text(json.dumps(settings | {"hidden_size": 32}))
    with pytest.warns(UserWarning, match="pickle"):
        refused(pickled, "another model", allow_pickle=True)


def test_encoder_decoder_models_are_refused(tmp_path):
    folder = tmp_path / "t5"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config("t5").to_dict()))
    (folder / "model.safetensors").write_bytes(b"")
    refused(folder, "t5 is an encoder–decoder model: give an encoder")


def test_only_a_shared_block_runs_deeper(folders):
    refused(folders("bert"), "only a model with one shared block", iterations=5)
    refused(folders("albert"), "iterations must be a whole number >= 1, got 0", iterations=0)
    refused(build_groups(folders), "only a model with one shared block", iterations=5)


def build_groups(folders):
    return folders("albert", num_hidden_groups=3)


def test_blocks_in_groups_are_run_in_their_order(folders):
    from test_hooks import assert_equal_to_the_models_own

    loaded = load(build_groups(folders))
    assert not loaded.architecture.shared_block
    assert len({id(block) for block in loaded.family.blocks(loaded.model)}) == 3
    assert_equal_to_the_models_own(loaded, REACTIONS)


def test_random_weights_are_seeded_and_of_the_same_architecture(folders):
    first, again, other = (load(folders("llama"), random=seed) for seed in (1, 1, 2))
    name = "layers.0.self_attn.q_proj.weight"
    values = [loaded.model.state_dict()[name].numpy() for loaded in (first, again, other, load(folders("llama")))]
    np.testing.assert_array_equal(values[0], values[1])
    assert all(np.abs(values[0] - value).max() > 0.1 for value in values[2:])
    assert first.architecture == other.architecture


def test_a_missing_extra_names_the_command(monkeypatch, folders):
    path = folders("bert")
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(path, r'the probe needs transformers, which is not installed: pip install -e "\.\[models\]"')


def test_a_missing_gguf_reader_names_the_command(monkeypatch, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    refused(tmp_path, r'the probe needs gguf, which is not installed: pip install -e "\.\[models\]"')


def test_a_folder_may_hold_weights_in_parts(tmp_path):
    folder = tmp_path / "parts"
    build(folder_made(folder), "bert")
    whole = load(folder).model.state_dict()
    import transformers

    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="5KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    parts = load(folder).model.state_dict()
    assert all(bool((whole[name] == parts[name]).all()) for name in whole)


def folder_made(folder):
    folder.mkdir()
    return folder


def test_real_models_are_what_they_are(installed):
    minilm = installed("minilm").architecture
    assert (minilm.norm_name, minilm.depth, minilm.width, minilm.heads) == ("post-LN", 6, 384, 12)
    albert = installed("albert").architecture
    assert (albert.norm_name, albert.depth, albert.shared_block, albert.heads) == ("post-LN", 12, True, 8)
    rxnfp = installed("rxnfp").architecture  # its config does not say what it is: read off its weights
    assert (rxnfp.family, rxnfp.depth, rxnfp.heads) == ("bert", 12, 4)


def test_a_hub_name_in_the_cache_is_found(tmp_path, monkeypatch, folders):
    import huggingface_hub.constants as constants

    snapshot = tmp_path / "models--someone--small" / "snapshots" / "abc"
    shutil.copytree(folders("bert"), snapshot)
    refs = tmp_path / "models--someone--small" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    assert load("someone/small").architecture == load(folders("bert")).architecture
