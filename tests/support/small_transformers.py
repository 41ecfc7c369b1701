"""Small models of transformers, with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
T = pytest.importorskip("transformers", reason="transformers is not installed")

RNG = np.random.default_rng(3)
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 60,
    "max_position_embeddings": 64,
}  # fmt: skip
PICTURES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
ONE = {**SMALL, "num_hidden_layers": 1}  # an export costs as much as it has layers: gpt2 and llama have two
TEXT = {"bos_token_id": 0, "eos_token_id": 0}
WRITERS = {
    "gpt2": lambda: T.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, n_positions=64, **TEXT),
    "llama": lambda: T.LlamaConfig(**SMALL, num_key_value_heads=2),
    "mistral": lambda: T.MistralConfig(**ONE, num_key_value_heads=2, sliding_window=5),
    "qwen2": lambda: T.Qwen2Config(**ONE, num_key_value_heads=2),
    "phi": lambda: T.PhiConfig(**ONE),
    "gemma": lambda: T.GemmaConfig(**ONE, num_key_value_heads=2, head_dim=8),
    "mixtral": lambda: T.MixtralConfig(**ONE, num_key_value_heads=2, num_local_experts=4),
}
WHISPER = {
    "vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 20,
    "num_mel_bins": 8, "pad_token_id": 0, "decoder_start_token_id": 0, **TEXT,
}  # fmt: skip
BOTH = {
    "t5": lambda: T.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    ),
    "whisper": lambda: T.WhisperConfig(**WHISPER),
    "bart": lambda: T.BartConfig(
        **{key: value for key, value in WHISPER.items() if key not in ("max_source_positions", "num_mel_bins")},
        max_position_embeddings=64,
    ),
}
READERS = {
    "bert": lambda: T.BertConfig(**SMALL),
    "vit": lambda: T.ViTConfig(**PICTURES),
    "clip": lambda: T.CLIPConfig(
        text_config={**SMALL, "max_position_embeddings": 16, "bos_token_id": 58, "eos_token_id": 59},
        vision_config=PICTURES,
        projection_dim=12,
    ),
}


def model_of(config: Any, auto: str) -> Any:
    torch.manual_seed(0)
    return getattr(T, auto).from_config(config).eval()


def tokens(name: str, context: int = 8) -> dict[str, int]:
    """The argument, for models that have tokens."""
    return {} if name == "vit" else {"context": context}


def both_of(name: str, auto: str = "") -> tuple[Any, dict[str, Any]]:
    """A model, and a source for its encoder."""
    model = model_of(
        BOTH[name](), auto or ("AutoModelForSpeechSeq2Seq" if name == "whisper" else "AutoModelForSeq2SeqLM")
    )
    if name == "whisper":
        return model, {"input_features": torch.from_numpy(RNG.standard_normal((2, 8, 40)).astype(np.float32))}
    return model, {"input_ids": torch.from_numpy(RNG.integers(3, 40, (2, 12)))}
