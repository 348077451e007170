"""`maieutic label`: what people are given to label of a run's replies, and how many labels are enough."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from cyclopts import Parameter

from maieutic.config.registry import unknown
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Record, Reply, read_records
from maieutic.judges.assignments import criteria_of
from maieutic.judges.labels import read_labels
from maieutic.judges.rubrics import LoadedRubric, read_rubric
from maieutic.people.labels import majority, read_people
from maieutic.people.outputs import Told, write_all
from maieutic.people.pairs import GUIDELINE as GUIDELINE_OF_PAIRS
from maieutic.people.pairs import PREFERENCE, told_of_pairs
from maieutic.people.sample import (
    Candidate,
    Key,
    Scheme,
    Unit,
    asked,
    assigned,
    check_name,
    drawn,
    strata_of,
    version_of,
)
from maieutic.people.sizes import Pilot, pilot_of, plan_lines
from maieutic.plan.inputs import batch_verdicts
from maieutic.plan.pinning import configuration
from maieutic.plan.plan import Plan
from maieutic.plan.rules import plan_before_pins
from maieutic.validation.trust import Said, of_its_task, said_by

R = TypeVar("R", bound=Record)
GUIDELINE = """Read what stands before the response, then label the response itself, criterion by criterion.

Label what is there, not what you would have said. Where two labels fit, take the one that the question's words name.

You are not told whose response it is. The same dialogue may come again with another response: label each on its own.

If you cannot decide, take the label in the middle and leave a remark."""


class Judged(NamedTuple):
    """What the judges of a task say of its replies: by judge, then by item, tutor and criterion."""

    by_judge: dict[str, Said]

    def add(self, more: Mapping[str, Said]) -> None:
        """What they say of further replies."""
        for judge, words in more.items():
            self.by_judge.setdefault(judge, {}).update(words)

    def said(self, item: str, tutor: str, criterion: str, desired: str | None) -> str:
        """The leading judge's word on one criterion."""
        if not self.by_judge:
            return "not judged"
        value = next(iter(self.by_judge.values())).get((item, tutor, criterion))
        return "unreadable" if value is None else "desired" if value == desired else "not desired"

    def torn(self, item: str, tutor: str, criteria: Sequence[str]) -> bool:
        """Whether judges differ about any criterion of a reply."""
        words = [{said.get((item, tutor, name)) for said in self.by_judge.values()} for name in criteria]
        return any(len(values) > 1 for values in words)


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """Which replies are labelled, how many, and by what: options of the command."""

    rubric: Annotated[str | None, Parameter(help="card by which people label; else the leading judge's")] = None
    tasks: Annotated[list[str] | None, Parameter(help="of which replies; else of all that the card is for")] = None
    tutors: Annotated[list[str] | None, Parameter(help="of whom; else of all tutors of the run")] = None
    against: Annotated[
        str | None, Parameter(help="a tutor: people say whose reply is better, its own or that of each other tutor")
    ] = None
    n: Annotated[int, Parameter(help="replies, or pairs")] = 100
    scheme: Annotated[
        Scheme,
        Parameter(
            help="random: of each tutor as many; verdict: also by what the judge says; disagreement: likelier where "
            "judges differ"
        ),
    ] = "random"
    seed: Annotated[int, Parameter(help="of the draw")] = 1
    overlap: Annotated[int | None, Parameter(help="annotators a reply; else 2 where there are several")] = None
    guideline: Annotated[Path | None, Parameter(help="text that stands beside each reply")] = None


def label(
    *,
    configfile: Annotated[list[Path], Parameter(help="run files, whose replies are there")],
    annotators: Annotated[list[str] | None, Parameter(help="their names")] = None,
    out: Annotated[Path | None, Parameter(help="a new folder for the sample")] = None,
    wanted: Wanted = Wanted(),
    plan: Annotated[bool, Parameter(help="write nothing: print how many labels give which interval")] = False,
) -> None:
    """Draw a blind sample of a run's replies, and write a page to label them for each annotator; or plan the labels.

    Raises UserError for what is not there, before anything is written.
    """
    made, _ = plan_before_pins(configuration(configfile))
    if wanted.against is not None:
        check_pairs(wanted, plan)
        loaded, judged = PREFERENCE, Judged({})
        candidates = pairs_of(made, wanted.against, wanted.tasks, wanted.tutors)
    else:
        loaded = rubric_for_people(made, wanted.rubric, wanted.tasks)
        candidates, judged = candidates_of(made, loaded, wanted.tasks, wanted.tutors)
    if plan:
        for line in plan_lines(candidates, pilot(made, loaded, candidates, judged), wanted.n):
            print(line)
        return
    names = annotators or []
    overlap = min(2, len(names)) if wanted.overlap is None else wanted.overlap
    check_names(names, overlap)
    folder = new_folder(out)
    if wanted.scheme == "disagreement" and len(judged.by_judge) < 2:
        fix = "--scheme random, which needs fewer labels"
        raise UserError("--scheme", "judges can differ where there are two", fix)
    units = drawn(candidates, wanted.n, wanted.seed, wanted.scheme, secrets.token_hex(8))
    usual = GUIDELINE if wanted.against is None else GUIDELINE_OF_PAIRS
    text = read_guideline(wanted.guideline) if wanted.guideline else usual
    told = told_of(loaded, units, text, wanted.seed)
    key = key_of(told, units, assigned(units, names, overlap), strata_of(candidates, wanted.scheme), wanted)
    write_sample(folder, key, units, told)
    kind, name = ("replies", "people") if wanted.against is None else ("pairs", "preferences")
    print(f"{len(units)} {kind} of {len(key.strata)} strata, {overlap} annotator(s) each: {folder}/page-NAME.html")
    print(f"{folder}/key.json says whose they are, and is not for annotators")
    print(f"then: maieutic read-labels --sample {folder} --files labels-*.json --out {name}.csv")


def told_of(loaded: LoadedRubric, units: Sequence[Unit], guideline: str, seed: int) -> Told:
    """What annotators are told, and the name of the sample: a digest of that and of the units."""
    version = version_of(loaded.rubric, units, guideline)
    named = ",".join([version, str(seed), *sorted(unit.name for unit in units)])
    sample = hashlib.sha256(named.encode()).hexdigest()[:10]
    return Told(sample, version, loaded.rubric, guideline, Path(paths.PICTURE_STORE))


def key_of(
    told: Told,
    units: Sequence[Unit],
    sheets: Mapping[str, list[str]],
    strata: Mapping[str, Sequence[Candidate]],
    wanted: Wanted,
) -> Key:
    """The key of a sample. sheets: by annotator the units; strata: all replies that could be drawn."""
    questions = {unit.name: asked(told.rubric, unit.candidate.criteria) for unit in units}
    every = {name: one for criteria in questions.values() for name, one in criteria.items()}
    chosen = Counter(unit.stratum for unit in units)
    pairs = told_of_pairs(units) if wanted.against is not None else {}
    return Key(
        sample=told.sample,
        seed=wanted.seed,
        scheme=wanted.scheme,
        rubric=told.rubric.rubric,
        compared=told.compared,
        version=told.version,
        annotators=list(sheets),
        overlap=sum(map(len, sheets.values())) // len(units),
        strata={name: (len(members), chosen[name]) for name, members in strata.items()},
        units={
            unit.name: {**unit.told, "criteria": list(questions[unit.name]), **pairs.get(unit.name, {})}
            for unit in units
        },
        criteria={name: list(one.answers) for name, one in every.items()},
        levels={name: one.level for name, one in told.rubric.criteria.items()},
        assigned=dict(sheets),
        against=wanted.against,
    )


def write_sample(folder: Path, key: Key, units: Sequence[Unit], told: Told) -> None:
    """Write all files of a sample; a draw that fails leaves no folder that would block the next one."""
    lacking = [name for unit in units for name in unit.candidate.item.images if not (told.pictures / name).is_file()]
    if lacking:
        raise UserError(str(told.pictures / lacking[0]), "is not there", "run snakemake first: it fetches the pictures")
    by_name = {unit.name: unit for unit in units}
    unfinished = folder.with_name(f".{folder.name}.{key.sample}")
    write_all(unfinished, {name: [by_name[unit] for unit in own] for name, own in key.assigned.items()}, units, told)
    key.write(unfinished)
    unfinished.replace(folder)


def read_guideline(path: Path) -> str:
    """A guideline's text. Raises UserError for a file that cannot be read as one."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())}", "a text in UTF-8") from None


def check_names(names: Sequence[str], overlap: int) -> None:
    """Raises UserError for annotators who are none."""
    if not names:
        raise UserError("--annotators", "nobody is named", "a name each, as --annotators ann ben")
    for name in names:
        check_name("--annotators", name)
    if len(set(names)) < len(names):
        raise UserError("--annotators", "a name stands there twice", "give each annotator one of their own")
    if not 1 <= overlap <= len(names):
        raise UserError("--overlap", f"{overlap} annotators a reply, of {len(names)}", "between 1 and their number")


def new_folder(out: Path | None) -> Path:
    """The folder of a sample. Raises UserError where none is named, and for one that is there."""
    if out is None:
        raise UserError("--out", "no folder is named", "--out labels-1")
    if out.exists():
        raise UserError(str(out), "the folder is there already, and what is in it may be labelled", "name another")
    return out


def rubric_for_people(plan: Plan, rubric: str | None, tasks: Sequence[str] | None) -> LoadedRubric:
    """The card by which people label. Raises UserError where none of the selected tasks takes it."""
    rubrics = {task: names for task, names in plan.people_rubrics.items() if tasks is None or task in tasks}
    if tasks and (strange := [task for task in tasks if task not in plan.people_rubrics]):
        raise unknown("--tasks", strange[0], list(plan.people_rubrics), "the judged tasks of this run")
    known = list(dict.fromkeys(name for names in rubrics.values() for name in names))
    if not known:
        fix = "add a judge with a rubric to run.judges, and a task that it judges to run.tasks"
        raise UserError("run.tasks", "no task of this run is judged, and so has no criteria to label by", fix)
    if rubric is not None and rubric not in known:
        raise unknown("--rubric", rubric, known, "the rubrics of the run's judged tasks")
    led = [name for judge in plan.judges_of_replies for name in plan.judge_entry(judge).rubrics if name in known]
    return read_rubric(rubric or [*led, *known][0])


def candidates_of(
    plan: Plan, loaded: LoadedRubric, tasks: Sequence[str] | None, tutors: Sequence[str] | None
) -> tuple[list[Candidate], Judged]:
    """Every reply that may be drawn. Raises UserError for replies that are not there yet."""
    candidates: list[Candidate] = []
    judged = Judged({})
    for benchmark in plan.benchmarks:
        cards = [
            card
            for card in plan.judge_cards(benchmark)
            if loaded.name in plan.people_rubrics[card.task] and (tasks is None or card.task in tasks)
        ]
        if not cards:
            continue
        known = plan.tutors_on(benchmark)
        if strange := [name for name in tutors or () if name not in known]:
            raise unknown("--tutors", strange[0], known, "the tutors of this run")
        judged.add(verdicts_of(plan, loaded, benchmark))
        items = {card.task: items_of(benchmark, card.task) for card in cards}
        for tutor in tutors or plan.compared_tutors(benchmark):
            asked_of = [card for card in cards if plan.takes(card, tutor)]
            replies = read_made(Path(paths.REPLIES.of(benchmark=benchmark, tutor=tutor)), Reply) if asked_of else []
            for card in asked_of:
                # No judge is asked about a baseline that the card does not name.
                if tutor not in card.baselines.named and any(one.trivial for one in replies):
                    continue
                cases = items[card.task]
                own = [one for one in replies if one.task == card.task and not one.error and one.id in cases]
                candidates += [candidate_of(loaded, cases[one.id], one, judged) for one in own]
    if not candidates:
        raise UserError("--tutors", "no reply of theirs can be labelled by it", "name others, or another rubric")
    return candidates, judged


def check_pairs(wanted: Wanted, plan: bool) -> None:
    """Raises UserError for what is not for pairs."""
    given = {"--rubric": wanted.rubric is not None, "--plan": plan, "--scheme": wanted.scheme != "random"}
    if strange := [name for name, holds in given.items() if holds]:
        raise UserError("--against", f"pairs of replies go without {', '.join(strange)}", f"leave {strange[0]} out")


def pairs_of(plan: Plan, against: str, tasks: Sequence[str] | None, tutors: Sequence[str] | None) -> list[Candidate]:
    """Every reply that may be compared with that of one tutor to the same item, where the two differ."""
    known = list(dict.fromkeys(card.task for cards in plan.benchmarks.values() for card in (one.card for one in cards)))
    if strange := [name for name in tasks or () if name not in known]:
        raise unknown("--tasks", strange[0], known, "the tasks of this run")
    for name in (against, *(tutors or ())):
        if name not in plan.tutors:
            raise unknown("--against" if name == against else "--tutors", name, plan.tutors, "the tutors of this run")
    candidates: list[Candidate] = []
    for benchmark, loaded_cards in plan.benchmarks.items():
        present = plan.tutors_on(benchmark)
        cards = [one.card for one in loaded_cards if tasks is None or one.card.task in tasks]
        if against not in present or not cards:
            continue
        items = {card.task: items_of(benchmark, card.task) for card in cards}
        theirs = replies_of(benchmark, against, items)
        for tutor in (name for name in tutors or plan.run.tutors if name != against and name in present):
            own = replies_of(benchmark, tutor, items)
            candidates += [
                Candidate(
                    task, items[task][name], tutor, texts, PREFERENCE.rubric.criteria, others=theirs[task, name],
                    against=against,
                )
                for (task, name), texts in own.items()
                if (task, name) in theirs and texts != theirs[task, name]
            ]  # fmt: skip
    if not candidates:
        raise UserError(
            "--against", "no other tutor's reply can be compared with its own", "name others, or more tasks"
        )
    return candidates


def replies_of(
    benchmark: str, tutor: str, items: Mapping[str, Mapping[str, Item]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By task and item every turn of a tutor's replies that say something. items: by task, the ones that are wanted."""
    replies = read_made(Path(paths.REPLIES.of(benchmark=benchmark, tutor=tutor)), Reply)
    return {
        (one.task, one.id): tuple(turn.text for turn in one.turns)
        for one in replies
        if not one.error and one.id in items.get(one.task, {}) and one.text.strip()
    }


def items_of(benchmark: str, task: str) -> dict[str, Item]:
    """The items of a task by their ids."""
    return {item.id: item for item in read_made(Path(paths.ITEMS.of(benchmark=benchmark, task=task)), Item)}


def read_made(path: Path, kind: type[R]) -> list[R]:
    """The records of a file that the run has made. Raises UserError where it has not."""
    if not path.is_file():
        raise UserError(str(path), "is not there", "run snakemake first: replies are labelled when they are there")
    return read_records(path, kind)


def verdicts_of(plan: Plan, loaded: LoadedRubric, benchmark: str) -> dict[str, Said]:
    """What each judge says of a benchmark's replies by a rubric, as far as it has said it; items as `task/id`."""
    said: dict[str, Said] = {}
    for judge in plan.judges_of_replies:
        files = [Path(file) for file in batch_verdicts(plan, judge, benchmark)]
        judgements = [one for file in files if file.is_file() for one in read_records(file, Judgement)]
        if words := said_by(map(of_its_task, judgements), loaded.name):
            said[judge] = words
    return said


def candidate_of(loaded: LoadedRubric, item: Item, reply: Reply, judged: Judged) -> Candidate:
    """One reply with what is asked of it, and what judges say."""
    criteria = criteria_of(loaded, item) or loaded.rubric.criteria
    name = f"{item.task}/{item.id}"
    first = next(iter(criteria), "")
    desired = loaded.rubric.rules.desired_word(criteria[first].desired) if first else None
    texts = tuple(turn.text for turn in reply.turns)
    said = judged.said(name, reply.tutor, first, desired)
    return Candidate(
        item.task, item, reply.tutor, texts, criteria, said, judged.torn(name, reply.tutor, list(criteria))
    )


def pilot(plan: Plan, loaded: LoadedRubric, candidates: Sequence[Candidate], judged: Judged) -> dict[str, Pilot]:
    """By criterion what is known of the judge's errors: from labels of this run's replies, else of labelled sets."""
    said = next(iter(judged.by_judge.values()), {})
    pairs: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
    if plan.run.human_labels:
        labels = read_people(Path(plan.run.human_labels), plan.people_scales, plan.own_criteria, plan.config.limits)
        for one, word in majority(labels):
            verdict = said.get((f"{one.task}/{one.id}", one.tutor, one.criterion))
            if word is not None and verdict is not None:
                pairs[one.criterion].append((word, verdict, 1 / (one.probability or 1.0)))
    source = f"{plan.run.human_labels}"
    if not pairs:
        source = checked_on(plan, loaded, next(iter(judged.by_judge), None), pairs)
    rates: dict[str, list[float]] = defaultdict(list)
    wanted = {
        name: loaded.rubric.rules.desired_word(one.desired)
        for candidate in candidates
        for name, one in candidate.criteria.items()
    }
    for (_, _, criterion), value in said.items():
        if value is not None and wanted.get(criterion) is not None:
            rates[criterion].append(float(value == wanted[criterion]))
    return {
        name: pilot_of(
            [(float(word == goal), float(verdict == goal)) for word, verdict, _ in pairs.get(name, [])],
            rates[name],
            source,
            [weight for _, _, weight in pairs.get(name, [])],
        )
        for name, goal in wanted.items()
        if goal is not None
    }


def checked_on(
    plan: Plan, loaded: LoadedRubric, judge: str | None, pairs: dict[str, list[tuple[str, str, float]]]
) -> str:
    """Add what a judge and people say of the replies of a labelled set that has these criteria; its name."""
    if judge is None:
        return ""
    verdicts = Path(paths.LABELLED_VERDICTS.of(judge=judge))
    for release in plan.releases_for(judge) if verdicts.is_file() else []:
        folder = Path(paths.LABELS.of(release=release)).parent
        rubric = plan.rubric_on(judge, release)
        if rubric is None or rubric.name != loaded.name or not (folder / "about.json").is_file():
            continue
        said = said_by(one for one in read_records(verdicts, Judgement) if one.task == release)
        for one in read_labels(folder).labels:
            verdict = said.get((one.id, one.tutor, one.criterion))
            if verdict is not None:
                pairs[one.criterion].append((one.label, verdict, 1 / (one.probability or 1.0)))
        return plan.label_sets[release].title
    return ""
