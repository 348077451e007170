"""Grader baseline without training: similarity of labelled replies to their dialogues in an encoder's embedding space.

An embedding is the mean of the last hidden states over a text's tokens. Texts are compared by cosine similarity, as is
usual with sentence encoders (Reimers and Gurevych, 2019). Heavy libraries are imported inside the functions, since only
the serving environment has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.jobs import Job
from maieutic.core.records import Closeness, write_records
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.datasets.text import last_student_turn
from maieutic.rewards.loading import JobDevices

BATCH = 32  # number of texts per forward pass
Embed = Callable[[Sequence[str]], list[list[float]]]


class EmbedReplies(Job):
    """Job that compares replies with dialogues. encoder: registry entry of the encoder."""

    encoder: str


def embed_replies(*, job: EmbedReplies, weights: Path, labels: list[Path], out: Path, gpus: int, threads: int) -> None:
    """Write the similarity of each labelled reply to its dialogue and to the student's last turn.

    weights: manifest of the encoder; labels: the files of one labelled set, all in the same folder.
    """
    from maieutic.rewards.loading import take_device

    device = take_device(job.encoder, JobDevices(gpus, threads))
    write_records(out, closeness(read_labelled_data(labels[0].parent), load_encoder(weights.parent, device)))


def closeness(labels: LabelledData, embed: Embed) -> list[Closeness]:
    """Return the cosine similarity of each reply to its dialogue and to the last student turn.

    A similarity is None if one of the two texts is empty.
    """
    before = {name: item.vars.get("history", "").strip() for name, item in labels.items.items()}
    last = {name: last_student_turn(history) for name, history in before.items()}
    replies = {(reply.id, reply.tutor): reply.text.strip() for reply in labels.replies}
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
    """Return the cosine of two unit vectors, or None if one of them is None."""
    if first is None or second is None:
        return None
    return round(sum(x * y for x, y in zip(first, second, strict=True)), 6)


def load_encoder(folder: Path, device: str) -> Embed:
    """Return a function that embeds texts as unit vectors. Texts that are too long lose their first tokens."""
    import torch
    from transformers import AutoModel

    from maieutic.rewards.loading import context_limit, load_tokenizer

    tokenizer: Any = load_tokenizer(folder)
    tokenizer.truncation_side = "left"
    model = AutoModel.from_pretrained(folder).to(device).eval()
    longest = context_limit(folder, tokenizer, None)

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
