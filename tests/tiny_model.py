"""Make a tiny random causal model with its own tokeniser, in the serving environment: tiny_model.py OUT."""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


def tokenizer(text: list[str], special: Sequence[str] = SPECIAL, template: str = TEMPLATE) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokeniser without a pad token, as some base models have."""
    result = Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    result.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=result, eos_token="<|end|>", chat_template=template)


def main(out: Path) -> None:
    torch.manual_seed(0)
    words = tokenizer([Path("README.md").read_text(encoding="utf-8")])
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024, eos_token_id=words.eos_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(out, safe_serialization=True)
    words.save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
