"""What a curation's data are worth: yields stage by stage, recomputed answers, duplicates, diversity, principles."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import read_records
from maieutic.curation.leakage import duplicates
from maieutic.curation.records import PRINCIPLES, Components, Dialogue, Flow, Outcome, Seed
from maieutic.curation.sets import lengths, problems_in, words
from maieutic.curation.texts import words_of

MOST_TEXTS = 200  # of self-BLEU, whose time grows with the square
STAGES_THAT_RECOMPUTE = ("validate_seed", "solve_follow_up", "solve_similar")


class MeasureCuration(Job):
    """A curation's name, its stages in order, and the similarity of duplicates."""

    curation: str
    stages: list[str]
    near_duplicate: float


def measure_curation(
    *,
    job: MeasureCuration,
    seeds: Path,
    components: Path,
    flows: Path,
    dialogues: Path,
    outcomes: list[Path],
    out: Path,
) -> None:
    """Write yields and quality figures, which the report shows."""
    outcome_records = [outcome for path in outcomes for outcome in read_records(path, Outcome)]
    seed_records, made = read_records(seeds, Seed), read_records(components, Components)
    dialogue_records = read_records(dialogues, Dialogue)
    new = [(f"{record.id} {number}", text) for record in made for number, text in enumerate(problems_in(record), 1)]
    problems = [*((seed.id, seed.problem) for seed in seed_records), *new]
    tutor = [turn.text for dialogue in dialogue_records for turn in dialogue.turns if turn.speaker == "tutor"]
    counted = Counter(
        name for dialogue in dialogue_records for turn in dialogue.turns for name in turn.principles or ()
    )
    write_json(
        out,
        {
            "curation": job.curation,
            "seeds": len(seed_records),
            "components": len(made),
            "flows": len(read_records(flows, Flow)),
            "dialogues": len(dialogue_records),
            "stages": yields(outcome_records, job.stages),
            "recomputed": recomputed(outcome_records),
            "duplicates": {"of": len(problems), "duplicates": len(duplicates(problems, job.near_duplicate))},
            "diversity": {"problems": diversity([text for _, text in new]), "tutor": diversity(tutor)},
            "exchanges": Counter(len(dialogue.turns) // 2 for dialogue in dialogue_records),
            "words_of_turns": [round(mean_words(dialogue)) for dialogue in dialogue_records],
            "exchanges_and_words": {
                "exchanges": lengths([len(dialogue.turns) // 2 for dialogue in dialogue_records]),
                "words": lengths([words(turn.text) for dialogue in dialogue_records for turn in dialogue.turns]),
            },
            "principles": {name: counted[name] for name in PRINCIPLES},
            "balance": balance([counted[name] for name in PRINCIPLES]),
            "flow_of_seeds": [
                {"domain": domain, "grade": grade, "source": source, "n": n}
                for (domain, grade, source), n in sorted(
                    Counter((record.domain, record.grade, record.source) for record in made).items()
                )
            ],
        },
    )


def mean_words(dialogue: Dialogue) -> float:
    """Words a turn."""
    return sum(words(turn.text) for turn in dialogue.turns) / len(dialogue.turns)


def yields(outcomes: Iterable[Outcome], stages: Sequence[str]) -> list[dict[str, Any]]:
    """By stage how many products came in, how many were kept, and why the others were not: in = kept + rejected."""
    by_stage: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_stage[outcome.stage].append(outcome)
    return [
        {
            "stage": stage,
            "came_in": len(group),
            "accepted": sum(outcome.reason is None for outcome in group),
            "rejected": dict(Counter(outcome.reason for outcome in group if outcome.reason is not None).most_common()),
            "refined": sum(outcome.refined for outcome in group),
            "truncated": sum(outcome.truncated for outcome in group),
            "asked_again": sum(outcome.attempts > 1 for outcome in group),
            "earlier": dict(Counter(attempt.reason for outcome in group for attempt in outcome.earlier).most_common()),
        }
        for stage in stages
        if (group := by_stage[stage])
    ]


def recomputed(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """By stage in which models solve a problem again: how many problems, and of how many the answer was confirmed."""
    counters: dict[str, Counter[str]] = {stage: Counter() for stage in STAGES_THAT_RECOMPUTE}
    for outcome in outcomes:
        if outcome.stage in counters:
            counters[outcome.stage]["of"] += 1
            counters[outcome.stage]["confirmed"] += outcome.reason is None
    return {stage: {"of": counter["of"], "confirmed": counter["confirmed"]} for stage, counter in counters.items()}


def diversity(texts: Sequence[str]) -> dict[str, Any]:
    """Share of different runs of one, two and three words; self-BLEU (sacrebleu), 0 to 100, low where texts differ."""
    tokens = [words_of(text) for text in texts]
    runs = {
        f"distinct_{size}": [
            tuple(sequence[place : place + size]) for sequence in tokens for place in range(len(sequence) - size + 1)
        ]
        for size in (1, 2, 3)
    }
    distinct = {name: round(len(set(ngrams)) / len(ngrams), 4) if ngrams else None for name, ngrams in runs.items()}
    return {**distinct, "self_bleu": self_bleu(texts[:MOST_TEXTS]), "texts": len(texts)}


def self_bleu(texts: Sequence[str]) -> float | None:
    """The mean BLEU of each text against all others (Zhu et al., 2018); None of fewer than two."""
    if len(texts) < 2:
        return None
    import sacrebleu

    scores = [
        sacrebleu.sentence_bleu(text, [*texts[:place], *texts[place + 1 :]]).score for place, text in enumerate(texts)
    ]
    return round(sum(scores) / len(scores), 2)


def balance(counts: Sequence[int]) -> float | None:
    """How evenly some kinds occur: entropy over its largest value, 1 where all are as frequent; None of none."""
    total = sum(counts)
    if not total:
        return None
    shares = [count / total for count in counts if count]
    return round(-sum(share * math.log(share) for share in shares) / math.log(len(counts)), 4)
