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
from maieutic.curation.rules import words_of
from maieutic.curation.sets import lengths, problems_in, words

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
    told = [one for path in outcomes for one in read_records(path, Outcome)]
    found, made = read_records(seeds, Seed), read_records(components, Components)
    said = read_records(dialogues, Dialogue)
    new = [(f"{one.id} {number}", text) for one in made for number, text in enumerate(problems_in(one), 1)]
    problems = [*((one.id, one.problem) for one in found), *new]
    tutor = [turn.text for one in said for turn in one.turns if turn.speaker == "tutor"]
    counted = Counter(name for one in said for turn in one.turns for name in turn.principles or ())
    write_json(
        out,
        {
            "curation": job.curation,
            "seeds": len(found),
            "components": len(made),
            "flows": len(read_records(flows, Flow)),
            "dialogues": len(said),
            "stages": yields(told, job.stages),
            "recomputed": recomputed(told),
            "duplicates": {"of": len(problems), "duplicates": len(duplicates(problems, job.near_duplicate))},
            "diversity": {"problems": diversity([text for _, text in new]), "tutor": diversity(tutor)},
            "exchanges": Counter(len(one.turns) // 2 for one in said),
            "words_of_turns": [round(mean_words(one)) for one in said],
            "exchanges_and_words": {
                "exchanges": lengths([len(one.turns) // 2 for one in said]),
                "words": lengths([words(turn.text) for one in said for turn in one.turns]),
            },
            "principles": {name: counted[name] for name in PRINCIPLES},
            "balance": balance([counted[name] for name in PRINCIPLES]),
            "flow_of_seeds": [
                {"domain": domain, "grade": grade, "source": source, "n": n}
                for (domain, grade, source), n in sorted(
                    Counter((of.domain, of.grade, of.source) for of in made).items()
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
    for one in outcomes:
        by_stage[one.stage].append(one)
    return [
        {
            "stage": stage,
            "came_in": len(of),
            "accepted": sum(one.reason is None for one in of),
            "rejected": dict(Counter(one.reason for one in of if one.reason is not None).most_common()),
            "refined": sum(one.refined for one in of),
            "truncated": sum(one.truncated for one in of),
            "asked_again": sum(one.attempts > 1 for one in of),
        }
        for stage in stages
        if (of := by_stage[stage])
    ]


def recomputed(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """By stage in which models solve a problem again: how many problems, and of how many the answer was confirmed."""
    found: dict[str, Counter[str]] = {stage: Counter() for stage in STAGES_THAT_RECOMPUTE}
    for one in outcomes:
        if one.stage in found:
            found[one.stage]["of"] += 1
            found[one.stage]["confirmed"] += one.reason is None
    return {stage: {"of": of["of"], "confirmed": of["confirmed"]} for stage, of in found.items()}


def diversity(texts: Sequence[str]) -> dict[str, Any]:
    """Share of different runs of one, two and three words; self-BLEU (sacrebleu), 0 to 100, low where texts differ."""
    tokens = [words_of(text) for text in texts]
    runs = {
        f"distinct_{size}": [tuple(of[place : place + size]) for of in tokens for place in range(len(of) - size + 1)]
        for size in (1, 2, 3)
    }
    distinct = {name: round(len(set(of)) / len(of), 4) if of else None for name, of in runs.items()}
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
