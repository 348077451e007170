"""`maieutic label`: what people are given to label of a run's replies, and how many labels are enough."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.config.registry import unknown
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Reply, read_records
from maieutic.judges.assignments import criteria_of
from maieutic.judges.rubrics import LoadedRubric, read_rubric
from maieutic.people.labels import majority, read_people
from maieutic.people.outputs import Told, write_all
from maieutic.people.sample import Candidate, Key, Scheme, asked, assigned, check_name, drawn, strata_of, version_of
from maieutic.people.sizes import Pilot, pilot_of, plan_lines
from maieutic.plan.pinning import configuration
from maieutic.plan.plan import Plan
from maieutic.plan.rules import plan_before_pins
from maieutic.validation.trust import Said, said_by

GUIDELINE = """Read what stands before the response, then label the response itself, criterion by criterion.

Label what is there, not what you would have said. Where two labels fit, take the one that the question's words name.

You are not told whose response it is. The same dialogue may come again with another response: label each on its own.

If you cannot decide, take the label in the middle and leave a remark."""
RESULTS = Path(paths.ROOT)


class Judged(NamedTuple):
    """What the judges of a task say of its replies: by judge, then by item, tutor and criterion."""

    by_judge: dict[str, Said]

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


def label(
    *,
    configfile: list[Path],
    annotators: list[str] | None = None,
    out: Path | None = None,
    rubric: str | None = None,
    tasks: list[str] | None = None,
    tutors: list[str] | None = None,
    n: int = 100,
    overlap: int | None = None,
    scheme: Scheme = "random",
    seed: int = 1,
    guideline: Path | None = None,
    plan: bool = False,
) -> None:
    """Draw a blind sample of a run's replies, and write a page to label them for each annotator; or plan the labels.

    configfile: run files of a run whose replies are there; annotators: their names; out: a new folder; rubric: by which
    card they label (without it the leading judge's); tasks, tutors: of which replies; n: how many; overlap: annotators
    a reply (2 where there are several); scheme: random, of each tutor as many; verdict: also by what the judge says;
    disagreement: likelier where judges differ; guideline: a text that stands beside each reply; plan: write nothing,
    and print how many labels give which interval. Raises UserError for what is not there, before anything is written.
    """
    made, _ = plan_before_pins(configuration(configfile))
    loaded = rubric_for_people(made, rubric, tasks)
    candidates, judged = candidates_of(made, loaded, tasks, tutors)
    if plan:
        for line in plan_lines(candidates, pilot(made, loaded, candidates, judged), n):
            print(line)
        return
    names = annotators or []
    overlap = min(2, len(names)) if overlap is None else overlap
    check_names(names, overlap, out)
    assert out is not None, "it is checked"
    if scheme == "disagreement" and len(judged.by_judge) < 2:
        raise UserError(
            "--scheme", "judges can differ where there are two", "--scheme random, which needs fewer labels"
        )
    units = drawn(candidates, n, seed, scheme, secrets.token_hex(8))
    sheets = assigned(units, names, overlap)
    text = read_guideline(guideline) if guideline else GUIDELINE
    version = version_of(loaded.rubric, units, text)
    names_of_all = ",".join([version, str(seed), *sorted(unit.name for unit in units)])
    sample = hashlib.sha256(names_of_all.encode()).hexdigest()[:10]
    told = Told(sample, version, loaded.rubric, text, Path(paths.PICTURE_STORE))
    every = {name: one for unit in units for name, one in asked(loaded.rubric, unit.candidate.criteria).items()}
    criteria = {unit.name: list(asked(loaded.rubric, unit.candidate.criteria)) for unit in units}
    sizes = {name: len(members) for name, members in strata_of(candidates, scheme).items()}
    key = Key(
        sample=sample,
        seed=seed,
        scheme=scheme,
        rubric=loaded.name,
        compared=told.compared,
        version=version,
        annotators=names,
        overlap=overlap,
        strata={name: (size, sum(unit.stratum == name for unit in units)) for name, size in sizes.items()},
        units={unit.name: {**unit.told, "criteria": criteria[unit.name]} for unit in units},
        criteria={name: list(one.answers) for name, one in every.items()},
        levels={name: one.level for name, one in loaded.rubric.criteria.items()},
        assigned=sheets,
    )
    by_name = {unit.name: unit for unit in units}
    lacking = [name for unit in units for name in unit.candidate.item.images if not (told.pictures / name).is_file()]
    if lacking:
        raise UserError(str(told.pictures / lacking[0]), "is not there", "run snakemake first: it fetches the pictures")
    unfinished = out.with_name(f".{out.name}.{key.sample}")  # a draw that fails leaves nothing that blocks the next one
    write_all(unfinished, {name: [by_name[unit] for unit in own] for name, own in sheets.items()}, units, told)
    key.write(unfinished)
    unfinished.replace(out)
    print(f"{len(units)} replies of {len(sizes)} strata, {overlap} annotator(s) each: {out}/page-NAME.html")
    print(f"{out}/key.json says whose they are, and is not for annotators")
    print(f"then: maieutic read-labels --sample {out} --files labels-*.json --out people.csv")


def read_guideline(path: Path) -> str:
    """A guideline's text. Raises UserError for a file that cannot be read as one."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())}", "a text in UTF-8") from None


def check_names(names: Sequence[str], overlap: int, out: Path | None) -> None:
    """Raises UserError for annotators who are none, and for a folder that is there."""
    if not names:
        raise UserError("--annotators", "nobody is named", "a name each, as --annotators ann ben")
    for name in names:
        check_name("--annotators", name)
    if len(set(names)) < len(names):
        raise UserError("--annotators", "a name stands there twice", "give each annotator one of their own")
    if not 1 <= overlap <= len(names):
        raise UserError("--overlap", f"{overlap} annotators a reply, of {len(names)}", "between 1 and their number")
    if out is None:
        raise UserError("--out", "no folder is named", "--out labels-1")
    if out.exists():
        raise UserError(str(out), "the folder is there already, and what is in it may be labelled", "name another")


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
    judged: dict[str, Said] = {}
    for benchmark in plan.benchmarks:
        for card in plan.judge_cards(benchmark):
            if loaded.name not in plan.people_rubrics[card.task] or (tasks is not None and card.task not in tasks):
                continue
            known = [name for name in plan.compared_tutors(benchmark) if plan.takes(card, name)]
            if tutors and (strange := [name for name in tutors if name not in plan.tutors_on(benchmark)]):
                raise unknown("--tutors", strange[0], plan.tutors_on(benchmark), "the tutors of this run")
            items = {
                item.id: item for item in read_made(Path(paths.ITEMS.of(benchmark=benchmark, task=card.task)), Item)
            }
            said = verdicts_of(plan, loaded, benchmark, card.task)
            for judge, words in said.items():
                judged.setdefault(judge, {}).update(words)
            for tutor in tutors or known:
                replies = read_made(Path(paths.REPLIES.of(benchmark=benchmark, tutor=tutor)), Reply)
                judged_here = tutor in card.baselines.named or not any(one.trivial for one in replies)
                own = [one for one in replies if one.task == card.task and not one.error and one.id in items]
                if not judged_here:  # no judge is asked about a baseline that the card does not name
                    continue
                candidates += [candidate_of(loaded, items[one.id], one, Judged(said)) for one in own]
    if not candidates:
        raise UserError("--tutors", "no reply of theirs can be labelled by it", "name others, or another rubric")
    return candidates, Judged(judged)


def read_made(path: Path, kind: type) -> list:
    """The records of a file that the run has made. Raises UserError where it has not."""
    if not path.is_file():
        raise UserError(str(path), "is not there", "run snakemake first: replies are labelled when they are there")
    return read_records(path, kind)


def verdicts_of(plan: Plan, loaded: LoadedRubric, benchmark: str, task: str) -> dict[str, Said]:
    """What each judge says of a task's replies by a rubric, as far as it has said it."""
    said: dict[str, Said] = {}
    for judge in plan.judges_of_replies:
        if task not in [card.task for card in plan.judge_cards(benchmark, judge)]:
            continue
        files = [
            paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=name) for name in plan.judge_batches(benchmark)
        ]
        judgements = [one for file in files if Path(file).is_file() for one in read_records(Path(file), Judgement)]
        words = said_by((one for one in judgements if one.task == task), loaded.name)
        if words:
            said[judge] = {(f"{task}/{item}", tutor, name): value for (item, tutor, name), value in words.items()}
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
    pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    if plan.run.human_labels:
        labels = read_people(Path(plan.run.human_labels), plan.people_scales, plan.own_criteria, plan.config.limits)
        for one, word in majority(labels):
            verdict = said.get((f"{one.task}/{one.id}", one.tutor, one.criterion))
            if word is not None and verdict is not None:
                pairs[one.criterion].append((word, verdict))
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
            [(float(word == goal), float(verdict == goal)) for word, verdict in pairs.get(name, [])],
            rates.get(name, []),
            source,
        )
        for name, goal in wanted.items()
        if goal is not None
    }


def checked_on(plan: Plan, loaded: LoadedRubric, judge: str | None, pairs: dict[str, list[tuple[str, str]]]) -> str:
    """Add what a judge and people say of the replies of a labelled set that has these criteria; its name."""
    from maieutic.judges.labels import read_labels

    for release in plan.releases_for(judge) if judge else []:
        folder = Path(paths.LABELS.of(release=release)).parent
        verdicts = Path(paths.LABELLED_VERDICTS.of(judge=str(judge)))
        rubric = plan.rubric_on(str(judge), release)
        if (
            rubric is None
            or rubric.name != loaded.name
            or not verdicts.is_file()
            or not (folder / "about.json").is_file()
        ):
            continue
        said = said_by(one for one in read_records(verdicts, Judgement) if one.task == release)
        for one in read_labels(folder).labels:
            verdict = said.get((one.id, one.tutor, one.criterion))
            if verdict is not None:
                pairs[one.criterion].append((one.label, verdict))
        return plan.label_sets[release].title
    return ""
