"""`tkf.probe` from texts to dataset: batches, resuming, long inputs, and what is said."""

import json
import os
import threading
import time
from html import escape
from pathlib import Path

import numpy as np
import pytest
from small_models import REACTIONS, reference

import tokenfield as tkf
from tokenfield.probe.texts import padded, windows

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe import measure as measuring  # noqa: E402
from tokenfield.probe import run as probe_run  # noqa: E402
from tokenfield.probe.loading import load  # noqa: E402
from tokenfield.probe.result import ProbeResult  # noqa: E402
from tokenfield.probe.store import Store  # noqa: E402

QUICK = {"null": False, "lipschitz": False}
SCHEMA = {
    "cosine_histogram": ("layer", "text", "bin"),
    "special_histogram": ("layer", "text", "bin"),
    "bin_edges": ("edge",),
    **dict.fromkeys(
        ("mean_cosine", "mean_cosine_no_special", "std_cosine", "special_cosine", "clusters", "largest_cluster"),
        ("layer", "text"),
    ),
    **dict.fromkeys(("effective_rank", "mean_length", "norm_std", "normalized_energy"), ("layer", "text")),
    "fixed_energy": ("layer", "text", "scale"),
    **dict.fromkeys(("entropy", "self_mass", "first_mass", "beta", "gamma", "r2gamma"), ("block", "head", "text")),
    "critical_gamma": ("block", "text"),
    "tokens": ("text",),
    "text_excerpt": ("text",),
    "null_mean_cosine": ("layer", "text"),
    "predicted_cosine": ("layer",),
}


@pytest.fixture(scope="module")
def result(small):
    return tkf.probe(small("bert"), REACTIONS, lengths=(4, 8), null=True)


def assert_same(first, second, rtol=1e-5, skip=("text_excerpt",)):
    assert set(first.data_vars) == set(second.data_vars)
    for name in first.data_vars:
        if name not in skip and first[name].dtype.kind == "f":
            np.testing.assert_allclose(first[name], second[name], rtol=rtol, atol=1e-6, err_msg=str(name))


def test_the_dataset_has_everything(result):
    for name, dims in SCHEMA.items():
        assert result.dataset[name].dims == dims, name
    sizes = result.dataset.sizes
    assert (sizes["layer"], sizes["block"], sizes["head"], sizes["text"]) == (4, 3, 4, 3)
    assert result.dataset["lipschitz"].dims == ("block", "length", "sample")
    assert {"tokenfield_version", "torch_version", "architecture", "notes", "config", "source"} <= set(
        result.dataset.attrs
    )
    assert result.architecture.norm_name == "post-LN"
    assert "mean cosine" in repr(result)


def test_mean_cosines_are_those_of_the_models_own_hidden_states(folders):
    """By hand, in double precision: hidden states of the model, cosines of all pairs of tokens of each text."""
    loaded = load(folders("bert"))
    loaded.model.double()
    result = tkf.probe(loaded, REACTIONS, lipschitz=False, null=False)
    for text, words in enumerate(REACTIONS):
        batch = padded(windows(loaded.tokenizer, [words], 64)[0], 0)
        for layer, hidden in enumerate(reference(loaded, batch).hidden_states):
            x = hidden[0].numpy()
            u = x / np.linalg.norm(x, axis=1, keepdims=True)
            c = (u @ u.T)[~np.eye(len(u), dtype=bool)]
            plain = (u[1:-1] @ u[1:-1].T)[~np.eye(len(u) - 2, dtype=bool)]
            at = {"layer": layer, "text": text}
            assert float(result.dataset["mean_cosine"].isel(at)) == pytest.approx(c.mean(), abs=1e-6)
            assert float(result.dataset["mean_cosine_no_special"].isel(at)) == pytest.approx(plain.mean(), abs=1e-6)


def test_the_energy_is_at_the_layers_own_scale(result):
    data = result.dataset.isel(text=1)
    medians = data["beta"].median("head").values
    betas = np.append(medians, medians[-1])  # the last layer is read by no block: that of the last block
    loaded_cosines = data["cosine_histogram"].values
    middle = (data["bin_edges"].values[1:] + data["bin_edges"].values[:-1]) / 2
    n = int(data["tokens"])
    for layer, beta in enumerate(betas):
        sums = (loaded_cosines[layer] * np.exp(beta * (middle - 1))).sum()
        binned = (2 * sums + n) / n**2
        # A bin is 0.02 wide: the energy of the histogram is within half of that in the exponent.
        assert np.log(float(data["normalized_energy"][layer])) == pytest.approx(np.log(binned), abs=0.01 * beta + 1e-9)


@pytest.mark.parametrize("kind", ["bert", "albert", "llama", "gpt2"])
def test_a_padded_batch_gives_the_statistics_of_single_texts(small, kind):
    together = tkf.probe(small(kind), REACTIONS, batch=8, **QUICK).dataset
    alone = tkf.probe(small(kind), REACTIONS, batch=1, **QUICK).dataset
    assert_same(together, alone)


def test_so_it_does_in_a_real_model(installed):
    texts = ["Before we proceed any further, hear me speak.", "Speak, speak."]
    together = tkf.probe(installed("minilm"), texts, batch=8, **QUICK).dataset
    alone = tkf.probe(installed("minilm"), texts, batch=1, **QUICK).dataset
    assert_same(together, alone)


def test_a_real_shared_block_runs_48_times():
    import warnings

    from small_models import real

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deep = load(real("albert"), allow_pickle=True, iterations=48)
    found = tkf.probe(deep, REACTIONS[:1], **QUICK)
    assert found.dataset.sizes["layer"] == 49
    assert len(found.summary()["layers"]) == 49
    assert np.isfinite(found.dataset["mean_cosine"]).all()
    assert any("run 48 times; it was trained for 12" in note for note in found.notes)


def test_batches_are_not_written_through_a_link(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "probe.part").symlink_to(tmp_path / "precious")
    store = Store(tmp_path, "model", "f" * 64)
    store.write(0, {"x": np.ones(3)})
    assert not list((tmp_path / "precious").iterdir())
    assert (Store(tmp_path, "model", "f" * 64).read(0)["x"] == 1).all()
    store.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_killed_run_goes_on_and_gives_the_same_bits(small, tmp_path, monkeypatch):
    whole = tkf.probe(small("llama"), REACTIONS, batch=1, null=True, out=tmp_path / "whole")
    calls = {"stream": 0}
    stream = measuring.stream

    def dies(*arguments):
        calls["stream"] += 1
        if calls["stream"] == 3:
            raise KeyboardInterrupt
        return stream(*arguments)

    out = tmp_path / "killed"
    monkeypatch.setattr(measuring, "stream", dies)
    with pytest.raises(KeyboardInterrupt):
        tkf.probe(small("llama"), REACTIONS, batch=1, null=True, out=out)
    assert sorted(path.name for path in (out / "probe.part").iterdir()) == ["model-00000.npz", "model-00001.npz"]
    assert not (out / "probe.zarr").exists()
    calls["stream"] = 100
    again = tkf.probe(small("llama"), REACTIONS, batch=1, null=True, out=out)
    assert calls["stream"] == 104  # one text was left, and three of the null model
    for name in whole.dataset.data_vars:
        np.testing.assert_array_equal(whole.dataset[name], again.dataset[name], err_msg=str(name))
    assert not (out / "probe.part").exists()
    assert (out / "probe.zarr").exists()


def test_batches_of_another_run_are_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(probe_run, "random_twin", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tkf.probe(small("bert"), REACTIONS, null=True, out=tmp_path)
    with pytest.raises(ValueError, match="belongs to another run"):
        tkf.probe(small("bert"), REACTIONS[:2], null=True, out=tmp_path)


def test_results_are_saved_and_checked(result, tmp_path):
    path = result.save(tmp_path / "probe.zarr")
    again = ProbeResult.load(tmp_path)
    assert_same(result.dataset, again.dataset, rtol=0)
    assert again.architecture == result.architecture
    assert list(again.dataset["text_excerpt"].values) == REACTIONS
    with pytest.raises(FileExistsError, match="exists already"):
        result.save(path)
    with pytest.raises(FileNotFoundError, match="no saved probe at"):
        ProbeResult.load(tmp_path / "none")
    result.dataset.assign(mean_cosine=result.dataset["mean_cosine"] + 1).assign_attrs(
        format="tokenfield-probe-2", checksum="0" * 64
    ).to_zarr(path, mode="w", consolidated=False, zarr_format=3)
    with pytest.raises(ValueError, match="is damaged: its checksum"):
        ProbeResult.load(path)


def test_the_summary_is_plain_json(result):
    numbers = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert [row["layer"] for row in numbers["layers"]] == [0, 1, 2, 3]
    for layer, row in enumerate(numbers["layers"]):
        for name in ("mean_cosine", "mean_cosine_no_special", "effective_rank"):
            assert row[name] == pytest.approx(float(result.dataset[name].isel(layer=layer).mean()))
    assert [row["block"] for row in numbers["blocks"]] == [0, 1, 2]
    assert numbers["texts"][0] == {"excerpt": REACTIONS[0], "tokens": int(result.dataset["tokens"][0])}
    assert numbers["verdict"]


def test_the_quick_probe_is_the_default_and_says_what_more_can_be_asked(small, result):
    quick = tkf.probe(small("bert"), REACTIONS)
    assert not [name for name in quick.dataset if str(name).startswith(("null_", "lipschitz"))]
    assert repr(quick).endswith("; null=True: random weights too; lipschitz=True: Lipschitz constants too)")
    assert quick.more in quick._repr_html_()
    assert escape(quick.answer) in quick._repr_html_()
    assert "--full (full=True) measures everything" in quick.more
    assert result.more == ""  # lengths ask for Lipschitz constants
    assert "=True" not in repr(result)


def test_unsupported_attention_still_gives_hidden_states(small):
    found = tkf.probe(small("distilbert"), REACTIONS, full=True)
    assert np.isfinite(found.dataset["mean_cosine"]).all()
    assert np.isfinite(found.dataset["fixed_energy"]).all()
    assert "beta" not in found.dataset
    assert "null_beta" not in found.dataset
    assert any("supported: albert, bert" in note for note in found.notes)
    json.dumps(found.summary(), allow_nan=False)


def test_a_text_beyond_the_positions_is_windowed_and_said(small):
    found = tkf.probe(small("bert"), ["C" * 500], most_windows=2, **QUICK)
    assert found.dataset["tokens"].values.tolist() == [64, 64]
    assert "text 1 has 500 tokens and the model has 64 positions: measured in 2 windows of 64" in found.notes[-1]


class PeakMemory:
    """The most memory that this process held inside the block, above what it held at its start, in bytes."""

    def __enter__(self):
        self.start, self.peak, self.done = self.held(), 0, False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def held(self):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def watch(self):
        while not self.done:
            self.peak = max(self.peak, self.held() - self.start)
            time.sleep(0.01)

    def __exit__(self, *error):
        self.done = True
        self.thread.join()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_4096_tokens_in_bounded_memory(small):
    """8 heads: all scores at once would be 0.54 GB, and their softmax as much again."""
    loaded = small(
        "llama",
        max_position_embeddings=4096,
        hidden_size=16,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_hidden_layers=1,
    )
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list("CNO=.cn12"), 4094))
    tkf.probe(loaded, [text[:64]], **QUICK)  # libraries and programs are loaded
    with PeakMemory() as memory:
        found = tkf.probe(loaded, [text], **QUICK)
    assert found.dataset["tokens"].values.tolist() == [4096]
    assert not any("window" in note for note in found.notes)
    assert float(found.dataset["cosine_histogram"].isel(layer=0, text=0).sum()) == 4096 * 4095 / 2
    assert memory.peak < 300e6


def test_out_of_memory_says_what_to_make_smaller(small, monkeypatch):
    def exhausted(*_):
        raise RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes. Error: not enough memory"
        )

    monkeypatch.setattr(measuring, "stream", exhausted)
    with pytest.raises(
        ValueError,
        match=r"out of memory with 3 text\(s\) of \d+ tokens at once: give a smaller --batch or --max-tokens",
    ):
        tkf.probe(small("bert"), REACTIONS, **QUICK)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("random_twin", "out of memory for a second model with random weights: use --no-null"),
        ("measure_smoothness", "out of memory with Lipschitz constants: give smaller --lengths, or use --no-lipschitz"),
    ],
)
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("std::bad_alloc")])
def test_so_it_does_in_later_parts_of_the_run(small, monkeypatch, part, message, error):
    def exhausted(*_, **__):
        raise error

    monkeypatch.setattr(probe_run, part, exhausted)
    with pytest.raises(ValueError, match=message):
        tkf.probe(small("bert"), REACTIONS, full=True)


def test_other_errors_are_not_taken_for_it(small, monkeypatch):
    monkeypatch.setattr(probe_run, "random_twin", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tkf.probe(small("bert"), REACTIONS, full=True)


def test_lengths_that_cannot_be_are_said_before_anything_is_measured(small, monkeypatch):
    monkeypatch.setattr(probe_run, "measure", lambda *_: 1 / 0)
    with pytest.raises(ValueError, match="lengths must be a whole number >= 3, got 2"):
        tkf.probe(small("bert"), REACTIONS, lengths=[2, 8])


def test_weights_that_overflow_are_said(folders):
    loaded = load(folders("gpt2"), random=0)
    loaded.model.h[1].mlp.c_proj.weight.data[:] = float("nan")
    with pytest.raises(ValueError, match="hidden states of layer 2 are not finite"):
        tkf.probe(loaded, REACTIONS, **QUICK)


def test_a_tokenizer_of_another_model_is_refused(folders):
    loaded = load(folders("bert", vocab_size=10))
    with pytest.raises(ValueError, match="its tokenizer gives token 18, but the model has 10"):
        tkf.probe(loaded, REACTIONS, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"max_tokens": 2.5}, "max_tokens must be a whole number"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"iterations": 5}, "iterations must be given to load"),
    ],
)
def test_bad_options_are_named(small, options, message):
    with pytest.raises(ValueError, match=message):
        tkf.probe(small("bert"), REACTIONS, **options)


@pytest.mark.slow
def test_figures_and_report_are_made(result, tmp_path):
    assert result.plot_cosines() is not None
    assert result.plot_theory() is not None
    page = result.report(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert page.name == "report.html"
    assert "post-LN" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
