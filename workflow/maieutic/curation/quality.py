"""Quality figures of a curation: yields by stage, recomputed answers, duplicates, diversity, use of principles."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from maieutic.config.rubrics import LoadedRubric, read_rubric
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import read_records
from maieutic.curation.leakage import duplicates
from maieutic.curation.records import PRINCIPLES, Components, Dialogue, Flow, Outcome, Seed, folded_words
from maieutic.curation.sets import count_words, dialogue_facts, problems_in
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.judges.judging import JudgeWork
from maieutic.judges.questions import Case
from maieutic.judges.verdicts import AskJudge
from maieutic.serving.backends import JobFiles

log = logging.getLogger(__name__)
MOST_TEXTS = 200  # maximum number of texts in self-BLEU, whose cost grows with the square of the number of texts


class MeasureCuration(Job):
    """Job that computes a curation's quality figures.

    stages: names of the stages, in order; near_duplicate: minimum similarity at which problems count as duplicates.
    """

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
    """Write the yields and the quality figures that the report shows."""
    outcome_records = [outcome for path in outcomes for outcome in read_records(path, Outcome)]
    seed_records, component_records = read_records(seeds, Seed), read_records(components, Components)
    dialogue_records = read_records(dialogues, Dialogue)
    new = [
        (f"{record.id} {number}", text)
        for record in component_records
        for number, text in enumerate(problems_in(record), 1)
    ]
    problems = [*((seed.id, seed.problem) for seed in seed_records), *new]
    tutor = [turn.text for dialogue in dialogue_records for turn in dialogue.turns if turn.speaker == "tutor"]
    facts = dialogue_facts(dialogue_records)
    principles = {name: facts["principles"].get(name, 0) for name in PRINCIPLES}
    write_json(
        out,
        {
            "curation": job.curation,
            "seeds": len(seed_records),
            "components": len(component_records),
            "flows": len(read_records(flows, Flow)),
            "dialogues": len(dialogue_records),
            "stages": stage_yields(outcome_records, job.stages),
            "duplicates": {"of": len(problems), "duplicates": len(duplicates(problems, job.near_duplicate))},
            "diversity": {"problems": diversity([text for _, text in new]), "tutor": diversity(tutor)},
            "exchanges": Counter(len(dialogue.turns) // 2 for dialogue in dialogue_records),
            "words_of_turns": [round(mean_words(dialogue)) for dialogue in dialogue_records],
            "dialogue_facts": facts,
            "principles": principles,
            "balance": evenness_of(list(principles.values())),
            "flow_of_seeds": [
                {"domain": domain, "grade": grade, "source": source, "n": n}
                for (domain, grade, source), n in sorted(
                    Counter((record.domain, record.grade, record.source) for record in component_records).items()
                )
            ],
        },
    )


def mean_words(dialogue: Dialogue) -> float:
    """Return the mean number of words per turn of a dialogue."""
    return sum(count_words(turn.text) for turn in dialogue.turns) / len(dialogue.turns)


def stage_yields(outcomes: Iterable[Outcome], stages: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per stage, with the numbers of products received, accepted, rejected (by reason) and revised."""
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


def diversity(texts: Sequence[str]) -> dict[str, Any]:
    """Return the shares of distinct 1-, 2- and 3-grams of words, and self-BLEU (0 to 100; low for diverse texts)."""
    tokens = [folded_words(text) for text in texts]
    runs = {
        f"distinct_{size}": [
            tuple(sequence[place : place + size]) for sequence in tokens for place in range(len(sequence) - size + 1)
        ]
        for size in (1, 2, 3)
    }
    distinct = {name: round(len(set(ngrams)) / len(ngrams), 4) if ngrams else None for name, ngrams in runs.items()}
    return {**distinct, "self_bleu": self_bleu(texts[:MOST_TEXTS]), "texts": len(texts)}


def self_bleu(texts: Sequence[str]) -> float | None:
    """Return the mean BLEU of each text against all others (Zhu et al., 2018); None for fewer than two texts."""
    if len(texts) < 2:
        return None
    import sacrebleu

    scores = [
        sacrebleu.sentence_bleu(text, [*texts[:place], *texts[place + 1 :]]).score for place, text in enumerate(texts)
    ]
    return round(sum(scores) / len(scores), 2)


def evenness_of(counts: Sequence[int]) -> float | None:
    """Return the entropy of counts divided by its maximum (1 if all counts are equal); None if the counts sum to 0."""
    from scipy.stats import entropy

    return round(float(entropy(counts, base=len(counts))), 4) if any(counts) else None


TASK, TUTOR = "curation", "curated"


class RateDialogues(AskJudge):
    """Job of a judge that rates dialogues.

    rubric: name of a rubric for which human labels validate the judge; sample: number of dialogues to rate.
    """

    curation: str
    rubric: str
    sample: int


def rate_dialogues(
    *, job: RateDialogues, dialogues: Path, weights: list[Path], journal: Path, server_log: Path, out: Path
) -> None:
    """Ask a judge to rate one tutor turn of each dialogue in a random sample.

    weights: the manifest of the judge's weights if this run serves the judge, else empty.
    """
    loaded = read_rubric(job.rubric)
    records = read_records(dialogues, Dialogue)
    chosen = set(ranked_by_seed((dialogue.id for dialogue in records), job.seed)[: job.sample])
    work: JudgeWork = [
        (loaded, rating_case(loaded, dialogue, job.seed)) for dialogue in records if dialogue.id in chosen
    ]
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
    log.info("%d of %d dialogues rated", len(work), len(records))


def rating_case(loaded: LoadedRubric, dialogue: Dialogue, seed: int) -> Case:
    """Return the judge's case for a random tutor turn of a dialogue.

    The history contains the turns before that turn. The prompt variables are the same as for MRBench's items.
    """
    places = [place for place, turn in enumerate(dialogue.turns) if turn.speaker == "tutor"]
    by_name = {f"{dialogue.id} {place}": place for place in places}
    place = by_name[ranked_by_seed(by_name, seed)[0]]
    lines = [f"{turn.speaker.capitalize()}: {turn.text}" for turn in dialogue.turns[:place]]
    variables = {
        "question": dialogue.problem,
        "history": "\n".join(lines),
        "dialog_history": "\n".join(lines),
        "topic": "",
        "level": "elementary or middle",
        "reference_solution": dialogue.solution,
    }
    replies = {"response": dialogue.turns[place].text}
    return Case(f"{dialogue.id}-{place}", TASK, TUTOR, variables, replies, loaded.rubric.criteria)
