"""Make a tiny random Idefics3 (a picture encoder and Llama) with its own tokeniser, in the serving environment.

Run it as vision_model.py OUT. Idefics3 was chosen because its code in vLLM does not need torchvision.
"""

import sys
from pathlib import Path

import torch
from tiny_model import SPECIAL as OF_TEXT
from tiny_model import tokenizer
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    LlamaConfig,
)

SIDE, PATCH, SCALE = 32, 8, 2
TOKENS = (SIDE // PATCH) ** 2 // SCALE**2  # tokens of a picture; three more surround them
SPECIAL = [
    *OF_TEXT,
    *("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"),
]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}<image>{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def main(out: Path) -> None:
    torch.manual_seed(0)
    words = tokenizer([Path(__file__).read_text(encoding="utf-8")], SPECIAL, TEMPLATE)
    # The heads are 32 wide, because vLLM's attention on the CPU does not support 16.
    layers = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "initializer_range": 0.2}
    text = LlamaConfig(
        vocab_size=len(words),
        num_hidden_layers=4,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        eos_token_id=words.eos_token_id,
        **layers,
    )
    config = Idefics3Config(
        text_config=text,
        vision_config={"num_hidden_layers": 2, "image_size": SIDE, "patch_size": PATCH, **layers},
        scale_factor=SCALE,
        image_token_id=words.convert_tokens_to_ids("<image>"),
        pad_token_id=words.eos_token_id,
        eos_token_id=words.eos_token_id,
    )
    Idefics3ForConditionalGeneration(config).save_pretrained(out)
    side = {"longest_edge": SIDE}
    pictures = Idefics3ImageProcessorPil(size=side, max_image_size=side, do_image_splitting=False)
    Idefics3Processor(pictures, words, image_seq_len=TOKENS, chat_template=TEMPLATE).save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
