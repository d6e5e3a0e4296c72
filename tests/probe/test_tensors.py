"""Which files of a model are read, and configs that do not fit them: refused before anything is built."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from small_models import as_pickle

pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe.loading import load

PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def refused(folder, message):
    with pytest.raises(ValueError, match=message) as error:
        load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.fixture
def parts(folders, tmp_path):
    """A model in two files with an index, and a copy of its first file elsewhere under many names."""
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(folders("bert"), folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: PARTS[k % 2] for k, name in enumerate(names)}
    for part in PARTS:
        save_file({name: tensors[name] for name in names if places[name] == part}, folder / part, {"format": "pt"})
    for name in ("outside.safetensors", "w.bin"):
        shutil.copy(folder / PARTS[0], tmp_path / name)
    shutil.copy(folder / PARTS[0], folder / "w.bin")
    (folder / "inner").mkdir()
    shutil.copy(folder / PARTS[0], folder / "inner" / "x.safetensors")

    def index(first):
        swapped = {name: first if part == PARTS[0] else part for name, part in places.items()}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": swapped}))
        return folder

    return index


def test_parts_are_read(parts, folders):
    found, whole = load(parts(PARTS[0])).model.state_dict(), load(folders("bert")).model.state_dict()
    assert all(bool((whole[name] == found[name]).all()) for name in whole)


@pytest.mark.parametrize(
    "name",
    [
        "w.bin",
        "../outside.safetensors",
        "inner/x.safetensors",
        "./" + PARTS[0],
        "..",
        ".safetensors/..",
        "a\\b.safetensors",
    ],
)
def test_an_index_names_plain_safetensors_files_only(parts, name):
    refused(parts(name), "its files must be plain names that end in .safetensors")


def test_absolute_names_too(parts, tmp_path):
    refused(parts(str(tmp_path / "outside.safetensors")), "its files must be plain names")


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_out_of_the_folder_is_not_followed(parts, tmp_path):
    folder = parts("linked.safetensors")
    (folder / "linked.safetensors").symlink_to(tmp_path / "outside.safetensors")
    refused(folder, "is a link to a file outside of the model's folder")


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_of_the_local_cache_are_followed(folders, tmp_path):
    snapshot, blobs = tmp_path / "snapshots" / "abc", tmp_path / "blobs"
    shutil.copytree(folders("bert"), snapshot)
    blobs.mkdir()
    (snapshot / "model.safetensors").rename(blobs / "0123")
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    assert load(snapshot).architecture == load(folders("bert")).architecture


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', '{"weight_map": ["a"]}', "{}"])
def test_a_damaged_index_is_said(parts, text):
    folder = parts(PARTS[0])
    (folder / "model.safetensors.index.json").write_text(text)
    refused(folder, "index.json is damaged: it must hold a weight_map")


def test_a_missing_part_is_said(parts):
    refused(parts("model-00003-of-00003.safetensors"), "which is not in the folder: is a file missing")


def with_config(source, folder, **changes):
    shutil.copytree(source, folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    return folder


@pytest.mark.parametrize("kind", ["bert", "distilbert", "albert"])
@pytest.mark.parametrize("asked", ["flash_attention_2", "someone/kernel", "sdpa"])
def test_attention_is_never_what_the_config_asks_for(folders, tmp_path, kind, asked):
    """Another implementation could be fetched, and run code."""
    changes = {"_attn_implementation": asked, "attn_implementation": asked, "_attn_implementation_internal": asked}
    loaded = load(with_config(folders(kind), tmp_path / "model", **changes))
    assert loaded.model.config._attn_implementation == "eager"


def test_the_config_does_not_say_which_file_is_read(folders, tmp_path):
    folder = with_config(folders("bert"), tmp_path / "model", transformers_weights="other.safetensors")
    shutil.copy(folders("gpt2") / "model.safetensors", folder / "other.safetensors")
    assert load(folder).architecture == load(folders("bert")).architecture


SIZES = {
    "bert": (
        "num_hidden_layers",
        "hidden_size",
        "vocab_size",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
    ),
    "albert": (
        "num_hidden_layers",
        "num_hidden_groups",
        "inner_group_num",
        "embedding_size",
        "hidden_size",
        "vocab_size",
    ),
    "llama": ("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "num_key_value_heads", "head_dim"),
    "gpt2": ("n_layer", "n_embd", "vocab_size", "n_positions", "n_inner"),
    "distilbert": ("n_layers", "dim", "hidden_dim", "vocab_size", "max_position_embeddings"),
}
LISTED = [("qwen2", "num_hidden_layers"), ("bert", "num_labels")]  # of which the config itself makes lists


@pytest.mark.parametrize(
    ("kind", "name"), [*((kind, name) for kind, names in SIZES.items() for name in names), *LISTED]
)
def test_sizes_that_do_not_fit_the_weights_are_refused_before_anything_is_built(folders, tmp_path, kind, name):
    load(folders(kind))  # libraries are loaded
    for number, size in enumerate((10**9, 10**7 + 16)):  # the second can be divided by the number of heads
        folder = with_config(folders(kind), tmp_path / f"{number}", **{name: size})
        start = time.process_time()
        refused(folder, "^model: ")
        assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("kind", "name"), [("bert", "num_hidden_layers"), ("llama", "num_hidden_layers"), ("gpt2", "n_layer")]
)
def test_a_config_that_leaves_layers_out_is_refused(folders, tmp_path, kind, name):
    for depth in (2, 1):
        refused(with_config(folders(kind), tmp_path / f"{depth}", **{name: depth}), "which its config leaves out")
    for depth in (0, -1):
        refused(with_config(folders(kind), tmp_path / f"{depth}", **{name: depth}), "no layers of tokens")
    pickled = as_pickle(folders("bert"), tmp_path / "pickled")
    settings = json.loads((pickled / "config.json").read_text())
    (pickled / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 2}))
    with pytest.raises(ValueError, match="which its config leaves out"), pytest.warns(UserWarning, match="is a pickle"):
        load(pickled, allow_pickle=True)


def test_an_adapter_is_not_followed_to_other_weights(folders, tmp_path):
    """With PEFT installed, transformers would read the model that it names."""
    folder = with_config(folders("bert"), tmp_path / "model")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(folders("gpt2"))}))
    refused(folder, "has an adapter")


def test_random_sizes_are_right_or_refused(folders, tmp_path):
    """Sizes a little off are found by the shapes of the tensors."""
    rng = np.random.default_rng(0)
    for trial in range(8):
        kind = str(rng.choice(list(SIZES)))
        names = [
            name
            for name in SIZES[kind]
            if name not in ("max_position_embeddings", "n_inner", "num_hidden_layers", "head_dim")
        ]
        folder = with_config(
            folders(kind), tmp_path / f"{trial}", **{str(rng.choice(names)): int(2 ** rng.integers(8, 30))}
        )
        refused(folder, "^model: ")
