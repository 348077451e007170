"""How close a labelled reply is to what stands before it, by an encoder's embeddings: a grader that was never trained.

Mean of the last hidden states over a text's tokens, cosine of two texts, as sentence encoders are used (Reimers and
Gurevych, 2019). Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.jobs import Job
from maieutic.core.records import Closeness, write_records
from maieutic.datasets.text import last_student_turn
from maieutic.judges.labels import Labels, read_labels
from maieutic.rewards.loading import Machine

BATCH = 32  # texts of one forward pass
Embed = Callable[[Sequence[str]], list[list[float]]]


class EmbedReplies(Job):
    """An encoder of the registry."""

    encoder: str


def embed_replies(*, job: EmbedReplies, weights: Path, labels: list[Path], out: Path, gpus: int, threads: int) -> None:
    """Write how close each labelled reply is to the dialogue and to the student's last turn.

    weights: the encoder's manifest; labels: the files of a labelled set, in its folder.
    """
    from maieutic.rewards.loading import take_device

    device = take_device(job.encoder, Machine(gpus, threads))
    write_records(out, closeness(read_labels(labels[0].parent), encoder(weights.parent, device)))


def closeness(labels: Labels, embed: Embed) -> list[Closeness]:
    """Cosines of every reply with what stands before it; None where one of the texts is empty."""
    before = {name: item.vars.get("history", "").strip() for name, item in labels.items.items()}
    last = {name: last_student_turn(history) for name, history in before.items()}
    replies = {(one.id, one.tutor): one.text.strip() for one in labels.replies}
    texts = sorted({*before.values(), *last.values(), *replies.values()} - {""}, key=len)
    vectors = dict(zip(texts, embed(texts), strict=True))
    return [
        Closeness(
            id=name,
            tutor=tutor,
            last_turn=cosine(vectors.get(text), vectors.get(last[name])),
            dialogue=cosine(vectors.get(text), vectors.get(before[name])),
        )
        for (name, tutor), text in replies.items()
    ]


def cosine(first: Sequence[float] | None, second: Sequence[float] | None) -> float | None:
    """The cosine of two vectors of length one."""
    if first is None or second is None:
        return None
    return round(sum(x * y for x, y in zip(first, second, strict=True)), 6)


def encoder(folder: Path, device: str) -> Embed:
    """Vectors of length one; a text that is longer than the model's context loses its oldest tokens."""
    import torch
    from transformers import AutoModel

    from maieutic.rewards.loading import context_of, load_tokenizer

    tokenizer: Any = load_tokenizer(folder)
    tokenizer.truncation_side = "left"
    model = AutoModel.from_pretrained(folder).to(device).eval()
    longest = context_of(folder, tokenizer, None)

    def embed(texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            batch = tokenizer(
                list(texts[start : start + BATCH]),
                padding=True,
                truncation=True,
                max_length=longest,
                return_tensors="pt",
            ).to(device)
            with torch.no_grad():
                states = model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"].unsqueeze(-1)
            means = (states * mask).sum(1) / mask.sum(1)
            vectors += torch.nn.functional.normalize(means, dim=1).cpu().tolist()
        return vectors

    return embed
