"""Small random models on disk, one of each family, and the real ones of `make models` where they are installed."""

import json

import pytest

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "c",
    "C",
    "(",
    ")",
    "O",
    "1",
    "2",
    "=",
    "N",
    ".",
    "n",
    "F",
    "Cl",
    ">>",
    "[K+]",
]
REACTIONS = ["CC(=O)Cl.NCc1ccncc1>>CC(=O)NCc1ccncc1", "COC.Cl>>CCl", "c1ccccc1Cl.N>>Nc1ccccc1.Cl.[K+]"]
COMMON = {"vocab_size": len(VOCABULARY), "pad_token_id": 0}
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
WIDE = {"initializer_range": 0.5}  # so that attention is not uniform and a wrong sign is seen


def config(kind, **options):
    import transformers as tf

    made = {
        "bert": (tf.BertConfig, {**SIZES, "max_position_embeddings": 64}),
        "roberta": (tf.RobertaConfig, {**SIZES, "max_position_embeddings": 64}),
        "electra": (tf.ElectraConfig, {**SIZES, "embedding_size": 8, "max_position_embeddings": 64}),
        "albert": (tf.AlbertConfig, {**SIZES, "embedding_size": 8, "max_position_embeddings": 64}),
        "llama": (tf.LlamaConfig, {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}),
        "mistral": (
            tf.MistralConfig,
            {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 64},
        ),
        "qwen2": (tf.Qwen2Config, {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}),
        "gpt2": (tf.GPT2Config, {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64}),
        "distilbert": (tf.DistilBertConfig, {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 24}),
        "t5": (tf.T5Config, {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_ff": 16, "d_kv": 8}),
    }
    cls, sizes = made[kind]
    return cls(**{**COMMON, **WIDE, **sizes, **options})


def build(folder, kind, seed=0, **options):
    """A random model of a family in a folder, with a vocabulary of reactions; biases and gains are random too."""
    import torch
    import transformers as tf

    tf.logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = tf.AutoModel.from_config(config(kind, **options))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder


def as_pickle(source, folder):
    """The same model with its weights in a .bin file, as old models have them, and without model_type."""
    import torch
    from safetensors.torch import load_file

    folder.mkdir()
    settings = json.loads((source / "config.json").read_text())
    kind = settings.pop("model_type")
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "vocab.txt").write_text((source / "vocab.txt").read_text())
    weights = {f"{kind}.{name}": value for name, value in load_file(source / "model.safetensors").items()}
    torch.save({**weights, "cls.predictions.bias": torch.zeros(3)}, folder / "pytorch_model.bin")
    return folder


def real(name):
    """The path of a real model, or a skipped test that says how to get it."""
    from tokenfield.probe.packages import model_path

    try:
        return model_path(name)
    except ValueError as error:
        pytest.skip(str(error))


def reference(loaded, batch):
    """What the model itself records: hidden states and attention, eager."""
    import torch

    with torch.inference_mode():
        ids, mask = torch.as_tensor(batch.ids), torch.as_tensor(batch.mask).long()
        return loaded.model(input_ids=ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
