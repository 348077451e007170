"""Make a tiny reward model like InternLM2's, with remote code: own_code_model.py OUT [TOKEN_IDS as JSON].

With token ids, print the scores that the model's `get_score` returns for them instead.
"""

import json
import sys
from pathlib import Path

import torch
from tiny_model import tokenizer
from transformers import AutoModel

CODE = '''
import torch
from transformers import PretrainedConfig, PreTrainedModel


class InternLM2Config(PretrainedConfig):
    model_type = "internlm2"

    def __init__(self, vocab_size=1024, hidden_size=32, reward_token_id=0, **more):
        self.vocab_size, self.hidden_size, self.reward_token_id = vocab_size, hidden_size, reward_token_id
        super().__init__(**more)


class InternLM2ForRewardModel(PreTrainedModel):
    config_class = InternLM2Config

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.v_head = torch.nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **more):
        """As on the hub: the value at the last token that is attended to."""
        hidden = torch.tanh(torch.cumsum(self.embeddings(input_ids) * attention_mask[..., None], dim=1))
        values = self.v_head(hidden)
        ends = attention_mask.cumsum(dim=1).argmax(dim=1).view(-1, 1)
        return (torch.gather(values.squeeze(-1), 1, ends), None)

    def get_score(self, ids):
        """As on the hub: the reward token behind the conversation, one at a time."""
        whole = torch.tensor([[*ids, self.config.reward_token_id]])
        return self.forward(input_ids=whole, attention_mask=torch.ones_like(whole))[0].item()
'''


def make(out: Path) -> None:
    """Write code, config, weights and tokeniser."""
    out.mkdir(parents=True)
    (out / "modeling_internlm2.py").write_text(CODE)
    words = tokenizer([Path("README.md").read_text(encoding="utf-8")])
    sys.path.insert(0, str(out))
    import modeling_internlm2 as module  # type: ignore[import-not-found]

    torch.manual_seed(5)
    config = module.InternLM2Config(vocab_size=len(words) + 1, reward_token_id=len(words), max_position_embeddings=256)
    module.InternLM2ForRewardModel(config).save_pretrained(out, safe_serialization=True)
    words.save_pretrained(out)
    saved = json.loads((out / "config.json").read_text())
    classes = {
        "AutoConfig": "modeling_internlm2.InternLM2Config",
        "AutoModel": "modeling_internlm2.InternLM2ForRewardModel",
    }
    (out / "config.json").write_text(json.dumps({**saved, "auto_map": classes}))
    (out / "manifest.json").write_text(json.dumps({"model": "m", "files": {}}))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) == 2:
        make(folder)
    else:
        model = AutoModel.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32)
        print(json.dumps([model.get_score(ids) for ids in json.loads(sys.argv[2])]))
