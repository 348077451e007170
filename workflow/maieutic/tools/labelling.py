"""`maieutic label`: sample replies of a run for people to label, or estimate how many labels are needed."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cyclopts import Parameter

from maieutic.config.registry import unknown_name
from maieutic.config.rubrics import LoadedRubric, Rubric, read_rubric, rubric_path
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Record, Reply, read_records
from maieutic.core.terminal import say
from maieutic.core.user_tables import preview
from maieutic.datasets.labelled_sets import read_labelled_data
from maieutic.judges.assignments import criteria_of_reply
from maieutic.judges.stage import batch_verdicts
from maieutic.launch.config_files import merged_configuration
from maieutic.people.annotation_files import SampleBrief, write_annotation_files
from maieutic.people.labels import read_human_labels, resolved_labels
from maieutic.people.pairs import PAIR_GUIDELINE as GUIDELINE_OF_PAIRS
from maieutic.people.pairs import PREFERENCE_RUBRIC, pair_columns
from maieutic.people.sample import (
    Candidate,
    Key,
    Scheme,
    Unit,
    assign_units,
    check_annotator_name,
    criterion_questions,
    critical_tags,
    draw_sample,
    guideline_version,
    strata_of,
)
from maieutic.people.sample_sizes import Pilot, estimate_pilot, label_plan_lines
from maieutic.people.school import PASS_MARK, School, read_school, school_of, sheets_with_school
from maieutic.plan.plan import Plan
from maieutic.run_plan import plan_before_pins
from maieutic.validation.trust import LabelsByReply, verdict_labels, with_task_in_id

R = TypeVar("R", bound=Record)
GUIDELINE = """Read everything before the response, then label the response itself, criterion by criterion.

Label the response as it is, not as you would have written it. If two labels fit, choose the one in the question.

The author of the response is not shown. A dialogue may appear again with another response: label each on its own.

If you cannot decide, choose the middle label and leave a remark."""


class JudgeVerdicts(NamedTuple):
    """Judges' verdicts on replies. by_judge: judge -> (item, tutor, criterion) -> label, the leading judge first."""

    by_judge: dict[str, LabelsByReply]

    def add(self, more: Mapping[str, LabelsByReply]) -> None:
        """Add verdicts on further replies."""
        for judge, verdicts in more.items():
            self.by_judge.setdefault(judge, {}).update(verdicts)

    def leading_verdict(self, item: str, tutor: str, criterion: str, desired: str | None) -> str:
        """Return the leading judge's verdict on one criterion: desired, not desired, unreadable or not judged."""
        if not self.by_judge:
            return "not judged"
        value = next(iter(self.by_judge.values())).get((item, tutor, criterion))
        return "unreadable" if value is None else "desired" if value == desired else "not desired"

    def is_disputed(self, item: str, tutor: str, criteria: Sequence[str]) -> bool:
        """Return True if the judges disagree about any criterion of a reply."""
        labels = [{verdicts.get((item, tutor, name)) for verdicts in self.by_judge.values()} for name in criteria]
        return any(len(values) > 1 for values in labels)


@Parameter(name="*")
@dataclass(frozen=True)
class LabelOptions:
    """Options of `maieutic label` that define the sample: which replies, how many, and by which rubric.

    Args:
        rubric: rubric card by which people label (default: the leading judge's rubric)
        tasks: tasks to sample replies from (default: all that use the rubric)
        tutors: tutors to sample replies from (default: all)
        against: sample pairs: a reply of this tutor and one of another
        n: number of replies (or pairs) to sample
        scheme: random (equally from each tutor), verdict (also in proportion to the leading judge's verdicts) or
            disagreement (more replies on which judges disagree)
        seed: seed of the random draw
        overlap: annotators per reply (default: 2 if possible)
        doubled: number of dialogues whose replies have several annotators, also by source: bridge=10 (default: all)
        school: JSON lines of units with known labels, for training, quiz and hidden checks
        pass_mark: share of right quiz answers that unlocks the sample
        repeats: units that each annotator sees twice, with --school
        guideline: guideline (default: the rubric's)
    """

    rubric: str | None = None
    tasks: list[str] | None = None
    tutors: list[str] | None = None
    against: str | None = None
    n: int = 100
    scheme: Scheme = "random"
    seed: int = 1
    overlap: int | None = None
    doubled: list[str] | None = None
    school: Path | None = None
    pass_mark: float = PASS_MARK
    repeats: int = 5
    guideline: Path | None = None


def label(
    *,
    configfile: list[Path],
    annotators: list[str] | None = None,
    out: Path | None = None,
    options: LabelOptions = LabelOptions(),
    plan: bool = False,
) -> None:
    """Draw a blind sample of a run's replies, and write a page for each annotator to label them.

    With `plan`, instead print the confidence intervals that are expected for several numbers of labels. Raises
    UserError for missing replies and unsuitable options, before anything is written.

    Args:
        configfile: run files; the run's replies must exist
        annotators: annotators, who get one page each
        out: folder to create for the sample
        plan: print the expected intervals for several numbers of labels
    """
    run_plan, _ = plan_before_pins(merged_configuration(configfile))
    if options.against is not None:
        check_pair_options(options, plan)
        loaded, judged = PREFERENCE_RUBRIC, JudgeVerdicts({})
        candidates = comparison_candidates(run_plan, options.against, options.tasks, options.tutors)
    else:
        loaded = rubric_for_people(run_plan, options.rubric, options.tasks)
        candidates, judged = candidates_of(run_plan, loaded, options.tasks, options.tutors)
    if plan:
        for line in label_plan_lines(candidates, judge_pilots(run_plan, loaded, candidates, judged), options.n):
            say(line)
        return
    names = annotators or []
    overlap = min(2, len(names)) if options.overlap is None else options.overlap
    check_annotators(names, overlap)
    doubled = doubled_dialogues(options.doubled, overlap)
    folder = new_folder(out)
    if options.scheme == "disagreement" and len(judged.by_judge) < 2:
        fix = "use --scheme random, or add a judge to run.judges"
        raise UserError("--scheme", "disagreement needs at least two judges", fix)
    salt = secrets.token_hex(8)
    units = draw_sample(candidates, options.n, options.seed, options.scheme, salt)
    usual = GUIDELINE if options.against is None else GUIDELINE_OF_PAIRS
    own_guideline = options.guideline or guideline_of_rubric(loaded)
    text = read_guideline(own_guideline) if own_guideline else usual
    instructions = annotator_instructions(loaded, units, text, options.seed)
    sheets = assign_units(units, names, overlap, doubled)
    key = make_sample_key(instructions, units, sheets, strata_of(candidates, options.scheme), options)
    if options.school is not None:
        check_school_options(options, loaded.rubric)
        lines = read_school(options.school, loaded.rubric)
        school, known = school_of(lines, loaded.rubric, options.pass_mark, options.seed, salt)
        whole, repeated = sheets_with_school(sheets, school, units, options.repeats, options.seed, salt)
        added = [*known, *repeated]
        write_sample(folder, with_school(key, school, whole, added, loaded.rubric), [*units, *added], instructions)
    else:
        write_sample(folder, key, units, instructions)
    kind, name = ("replies", "people") if options.against is None else ("pairs", "preferences")
    say(f"{len(units)} {kind} from {len(key.strata)} strata, {annotators_text(sheets)}: {folder}/page-NAME.html")
    for line in preview(shown_to_annotators(unit) for unit in units):
        say(line)
    say(f"{folder}/key.json names the tutors: do not send it to the annotators")
    say(f"next: maieutic read-labels --sample {folder} --files labels-*.json --out {name}.csv")


def shown_to_annotators(unit: Unit) -> dict[str, Any]:
    """Return what annotators see of a unit, without the author of its reply."""
    candidate = unit.candidate
    return {
        "task": candidate.task,
        "item": candidate.item.id,
        **{name: text for name, text in candidate.item.vars.items() if text},
        "response": "\n\n".join(candidate.texts),
        "criteria": list(candidate.criteria),
    }


def annotators_per_unit(sheets: Mapping[str, list[str]]) -> Counter[int]:
    """Return the number of units by their number of annotators."""
    return Counter(Counter(name for sheet in sheets.values() for name in sheet).values())


def annotators_text(sheets: Mapping[str, list[str]]) -> str:
    """Return the numbers of annotators of the units as text."""
    numbers = annotators_per_unit(sheets)
    if len(numbers) == 1:
        return f"{max(numbers)} annotator(s) each"
    return ", ".join(f"{numbers[several]} with {several} annotator(s)" for several in sorted(numbers, reverse=True))


def guideline_of_rubric(loaded: LoadedRubric) -> Path | None:
    """Return the guideline for annotators beside a rubric card, `RUBRIC.guideline.txt`; None without the file."""
    path = rubric_path(loaded.name).with_suffix(".guideline.txt")
    return path if path.is_file() else None


def annotator_instructions(loaded: LoadedRubric, units: Sequence[Unit], guideline: str, seed: int) -> SampleBrief:
    """Return the instructions for annotators, with a name of the sample that depends on all arguments."""
    version = guideline_version(loaded.rubric, units, guideline)
    named = ",".join([version, str(seed), *sorted(unit.name for unit in units)])
    sample = hashlib.sha256(named.encode()).hexdigest()[:10]
    return SampleBrief(sample, version, loaded.rubric, guideline, Path(paths.PICTURE_STORE))


def make_sample_key(
    instructions: SampleBrief,
    units: Sequence[Unit],
    sheets: Mapping[str, list[str]],
    strata: Mapping[str, Sequence[Candidate]],
    options: LabelOptions,
) -> Key:
    """Return the sample's key, which links each sampled reply or pair to its tutor and is kept from the annotators.

    units: the sampled replies or pairs; sheets: names of the units that each annotator labels; strata: all replies that
    could be drawn, by stratum.
    """
    rubric = instructions.rubric
    questions = {unit.name: criterion_questions(rubric, unit.candidate.criteria) for unit in units}
    all_questions = {name: question for criteria in questions.values() for name, question in criteria.items()}
    chosen = Counter(unit.stratum for unit in units)
    pairs = pair_columns(units) if options.against is not None else {}
    return Key(
        sample=instructions.sample,
        seed=options.seed,
        scheme=options.scheme,
        rubric=rubric.rubric,
        compared=instructions.compared,
        version=instructions.version,
        annotators=list(sheets),
        overlap=max(annotators_per_unit(sheets)),
        strata={name: (len(members), chosen[name]) for name, members in strata.items()},
        units={
            unit.name: {**unit.key_columns, "criteria": list(questions[unit.name]), **pairs.get(unit.name, {})}
            for unit in units
        },
        criteria={name: list(question.answers) for name, question in all_questions.items()},
        levels={name: criterion.level for name, criterion in rubric.criteria.items()},
        assigned=dict(sheets),
        against=options.against,
    )


def check_school_options(options: LabelOptions, rubric: Rubric) -> None:
    """Raise UserError for a school of pairs, or if an option of a school is out of range."""
    if options.against is not None or rubric.rules.against_reference:
        fix = "remove --school, or label single replies (without --against, another --rubric)"
        raise UserError("--school", "a school labels replies, not pairs", fix)
    if not 0 <= options.pass_mark <= 1:
        raise UserError("--pass-mark", f"expected a share from 0 to 1, found {options.pass_mark:g}", "pass 0.8")
    if options.repeats < 0:
        raise UserError("--repeats", f"expected a number of units, found {options.repeats}", "pass 0 or more")


def with_school(
    key: Key, school: School, sheets: Mapping[str, list[str]], units: Sequence[Unit], rubric: Rubric
) -> Key:
    """Return a sample's key with its school. units: units of the school, and those that are shown twice."""
    questions = criterion_questions(rubric, rubric.criteria)
    answers = {name: list(question.answers) for name, question in questions.items()}
    added = {unit.name: {**unit.key_columns, "criteria": list(unit.candidate.criteria)} for unit in units}
    changes = {"school": school.model_dump(), "assigned": dict(sheets), "units": {**key.units, **added}}
    return key.model_copy(update={**changes, "criteria": {**answers, **key.criteria}})


def write_sample(folder: Path, key: Key, units: Sequence[Unit], instructions: SampleBrief) -> None:
    """Write all files of a sample. If this fails, no incomplete folder is left behind."""
    pictures = [instructions.pictures / name for unit in units for name in unit.candidate.item.images]
    if missing := [path for path in pictures if not path.is_file()]:
        raise UserError(str(missing[0]), "does not exist", "run snakemake first: it downloads the pictures")
    by_name = {unit.name: unit for unit in units}
    unfinished = folder.with_name(f".{folder.name}.{key.sample}")
    sheets = {annotator: [by_name[name] for name in names] for annotator, names in key.assigned.items()}
    school = School.model_validate(key.school).content() if key.school else None
    write_annotation_files(unfinished, sheets, units, instructions, school)
    key.write(unfinished)
    unfinished.replace(folder)


def read_guideline(path: Path) -> str:
    """Return a guideline's text. Raises UserError if the file cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {' '.join(str(error).split())}"
        raise UserError(str(path), problem, "name an existing file, saved as UTF-8 text") from None


def check_annotators(names: Sequence[str], overlap: int) -> None:
    """Raise UserError if no annotator is named, if a name is invalid or repeated, or if `overlap` is out of range.

    overlap: number of annotators per reply.
    """
    if not names:
        raise UserError(
            "--annotators",
            "expected at least one annotator, found none",
            "list their names, as in --annotators ann ben",
        )
    for name in names:
        check_annotator_name("--annotators", name)
    if len(set(names)) < len(names):
        raise UserError("--annotators", "a name is listed twice", "give each annotator a different name")
    if not 1 <= overlap <= len(names):
        fix = f"choose a number from 1 to {len(names)}"
        raise UserError("--overlap", f"expected 1 to {len(names)} annotators per reply, found {overlap}", fix)


def doubled_dialogues(words: Sequence[str] | None, overlap: int) -> dict[str, int] | None:
    """Return the numbers of dialogues with several annotators by source, "" for any; None for all dialogues.

    words: values of `--doubled`, as NUMBER or SOURCE=NUMBER. Raises UserError for another form, for a mixture of both,
    or if replies have only one annotator each anyway.
    """
    if words is None:
        return None
    numbers = {source.lower(): number for source, _, number in (word.rpartition("=") for word in words)}
    if not all(number.isdecimal() for number in numbers.values()) or ("" in numbers and len(words) > 1):
        problem = f"expected a number of dialogues, or SOURCE=NUMBER for each source, found {' '.join(words)}"
        raise UserError("--doubled", problem, "pass it as in --doubled 40, or as in --doubled bridge=10 mathdial=30")
    if overlap < 2:
        fix = "name a second annotator, or remove --doubled"
        raise UserError("--doubled", "no reply has several annotators, since --overlap is 1", fix)
    return {source: int(number) for source, number in numbers.items()}


def new_folder(out: Path | None) -> Path:
    """Return the path of the folder to create for a sample. Raises UserError if it is None or exists already."""
    if out is None:
        raise UserError("--out", "expected a folder, found none", "add --out labels-1")
    if out.exists():
        raise UserError(str(out), "the folder exists already and may contain labels", "choose another folder")
    return out


def rubric_for_people(plan: Plan, rubric: str | None, tasks: Sequence[str] | None) -> LoadedRubric:
    """Return the rubric by which people label, by default that of the leading judge.

    rubric: name of the rubric, None for the default; tasks: tasks to label, None for all judged tasks. Raises UserError
    if the rubric fits none of these tasks.
    """
    rubrics = {task: names for task, names in plan.people_rubrics.items() if tasks is None or task in tasks}
    if tasks and (strange := [task for task in tasks if task not in plan.people_rubrics]):
        raise unknown_name("--tasks", strange[0], list(plan.people_rubrics), "the judged tasks of this run")
    known = list(dict.fromkeys(name for names in rubrics.values() for name in names))
    if not known:
        fix = "add a judge with a rubric to run.judges, and a task that it judges to run.tasks"
        raise UserError("run.tasks", "no task of this run is judged, so there are no criteria to label by", fix)
    if rubric is not None and rubric not in known:
        raise unknown_name("--rubric", rubric, known, "the rubrics of the run's judged tasks")
    led = [name for judge in plan.judges_of_replies for name in plan.judge_entry(judge).rubrics if name in known]
    return read_rubric(rubric or [*led, *known][0])


def candidates_of(
    plan: Plan, loaded: LoadedRubric, tasks: Sequence[str] | None, tutors: Sequence[str] | None
) -> tuple[list[Candidate], JudgeVerdicts]:
    """Return every reply that may be drawn, and the judges' verdicts on these replies.

    tasks, tutors: restrict the replies if not None. Raises UserError if there are no replies.
    """
    candidates: list[Candidate] = []
    judged = JudgeVerdicts({})
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
            raise unknown_name("--tutors", strange[0], known, "the tutors of this run")
        judged.add(verdicts_by_judge(plan, loaded, benchmark))
        asked_about = replies_with_follow_up(plan, loaded, benchmark)
        items = {card.task: task_items_by_id(benchmark, card.task) for card in cards}
        for tutor in tutors or plan.compared_tutors(benchmark):
            answered = [card for card in cards if plan.can_answer(card, tutor)]
            replies = (
                read_run_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor=tutor)), Reply) if answered else []
            )
            for card in answered:
                # The replies of a baseline are judged only if the card names the baseline.
                if tutor not in card.baselines.named and any(reply.trivial for reply in replies):
                    continue
                cases = items[card.task]
                of_card = [
                    reply for reply in replies if reply.task == card.task and reply.id in cases and not reply.error
                ]
                if asked_about is None:
                    candidates += [candidate_of(loaded, cases[reply.id], reply, judged) for reply in of_card]
                else:
                    lost = [reply for reply in of_card if (reply.task, reply.id, tutor) in asked_about]
                    candidates += [lost_candidate(loaded, cases[reply.id], reply, judged) for reply in lost]
    if not candidates:
        fix = "choose other --tutors, or another --rubric"
        raise UserError("--tutors", "no reply of these tutors can be labelled with the rubric", fix)
    return candidates, judged


def replies_with_follow_up(plan: Plan, loaded: LoadedRubric, benchmark: str) -> set[tuple[str, str, str]] | None:
    """Return the replies (task, item, tutor) about which the leading judge was asked a follow-up question.

    None if the rubric is no follow-up question, so that people can label every reply by it. An example of one is the
    type of error of a reply that lost a comparison (KMP-Bench, appendix J).
    """
    judges = [
        judge
        for judge in plan.judges_of_replies
        for name in plan.reply_rubrics(judge, benchmark)
        if (more := read_rubric(name).rubric.follow_up) is not None and more.rubric == loaded.name
    ]
    if not judges:
        return None
    files = [Path(file) for file in batch_verdicts(plan, judges[0], benchmark)]
    return {
        (judgement.task, judgement.id, str(judgement.tutor))
        for file in files
        if file.is_file()
        for judgement in read_records(file, Judgement)
        if judgement.rubric == loaded.name
    }


def check_pair_options(options: LabelOptions, plan: bool) -> None:
    """Raise UserError for options that do not apply to pairs."""
    unsuitable = {"--rubric": options.rubric is not None, "--plan": plan, "--scheme": options.scheme != "random"}
    if flags := [flag for flag, used in unsuitable.items() if used]:
        raise UserError("--against", f"cannot be combined with {', '.join(flags)}", f"remove {', '.join(flags)}")


def comparison_candidates(
    plan: Plan, against: str, tasks: Sequence[str] | None, tutors: Sequence[str] | None
) -> list[Candidate]:
    """Return every reply that can be paired with a different reply of the tutor `against` to the same item.

    tasks, tutors: restrict the replies if not None. Raises UserError if there are no pairs.
    """
    known = list(dict.fromkeys(loaded.card.task for cards in plan.benchmarks.values() for loaded in cards))
    if strange := [name for name in tasks or () if name not in known]:
        raise unknown_name("--tasks", strange[0], known, "the tasks of this run")
    for name in (against, *(tutors or ())):
        if name not in plan.tutors:
            raise unknown_name(
                "--against" if name == against else "--tutors", name, plan.tutors, "the tutors of this run"
            )
    candidates: list[Candidate] = []
    for benchmark, loaded_cards in plan.benchmarks.items():
        present = plan.tutors_on(benchmark)
        cards = [loaded.card for loaded in loaded_cards if tasks is None or loaded.card.task in tasks]
        if against not in present or not cards:
            continue
        items = {card.task: task_items_by_id(benchmark, card.task) for card in cards}
        references = reply_turns(benchmark, against, items)
        for tutor in (name for name in tutors or plan.run.tutors if name != against and name in present):
            replies = reply_turns(benchmark, tutor, items)
            candidates += [
                Candidate(
                    task, items[task][name], tutor, texts, PREFERENCE_RUBRIC.rubric.criteria,
                    others=references[task, name], against=against,
                )
                for (task, name), texts in replies.items()
                if (task, name) in references and texts != references[task, name]
            ]  # fmt: skip
    if not candidates:
        problem = f"found no reply of another tutor to compare with the replies of {against}"
        raise UserError("--against", problem, "choose other --tutors, or more --tasks")
    return candidates


def reply_turns(
    benchmark: str, tutor: str, items: Mapping[str, Mapping[str, Item]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the texts of each reply's turns, by task and item id. Failed and empty replies are left out.

    items: items by task, then by id.
    """
    replies = read_run_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor=tutor)), Reply)
    return {
        (reply.task, reply.id): tuple(turn.text for turn in reply.turns)
        for reply in replies
        if not reply.error and reply.id in items.get(reply.task, {}) and reply.text.strip()
    }


def task_items_by_id(benchmark: str, task: str) -> dict[str, Item]:
    """Return the items of a task by id."""
    items = read_run_records(Path(paths.ITEMS.of(benchmark=benchmark, task=task)), Item)
    return {item.id: item for item in items if not item.repeat}


def read_run_records(path: Path, kind: type[R]) -> list[R]:
    """Return the records in a file that a run writes. Raises UserError if the file does not exist yet."""
    if not path.is_file():
        raise UserError(str(path), "does not exist", "run snakemake first: only existing replies can be labelled")
    return read_records(path, kind)


def verdicts_by_judge(plan: Plan, loaded: LoadedRubric, benchmark: str) -> dict[str, LabelsByReply]:
    """Return the existing verdicts of each judge on a benchmark's replies under one rubric.

    Items are named `task/id`.
    """
    by_judge: dict[str, LabelsByReply] = {}
    for judge in plan.judges_of_replies:
        files = [Path(file) for file in batch_verdicts(plan, judge, benchmark)]
        judgements = [judgement for file in files if file.is_file() for judgement in read_records(file, Judgement)]
        if verdicts := verdict_labels(map(with_task_in_id, judgements), loaded.name):
            by_judge[judge] = verdicts
    return by_judge


def candidate_of(loaded: LoadedRubric, item: Item, reply: Reply, judged: JudgeVerdicts) -> Candidate:
    """Return a reply as a candidate for the sample, with its criteria and what the judges decided on it."""
    criteria = criteria_of_reply(loaded, item, reply) or loaded.rubric.criteria
    name = f"{item.task}/{item.id}"
    first = next(iter(criteria), "")
    desired = loaded.rubric.rules.desired_label(criteria[first].desired) if first else None
    texts = tuple(turn.text for turn in reply.turns)
    verdict = judged.leading_verdict(name, reply.tutor, first, desired)
    disagreed = judged.is_disputed(name, reply.tutor, list(criteria))
    part = ", ".join(f"{tag} {item.tags.get(tag)}" for tag in critical_tags(loaded.name))
    return Candidate(item.task, item, reply.tutor, texts, criteria, verdict, disagreed, part=part)


def lost_candidate(loaded: LoadedRubric, item: Item, reply: Reply, judged: JudgeVerdicts) -> Candidate:
    """Return a reply that lost to the item's reference reply, which annotators see as well."""
    return candidate_of(loaded, item, reply, judged)._replace(reference=str(item.reference.get("text", "")))


def judge_pilots(
    plan: Plan, loaded: LoadedRubric, candidates: Sequence[Candidate], judged: JudgeVerdicts
) -> dict[str, Pilot]:
    """Return estimates by criterion of how often the leading judge errs, to plan the number of labels.

    The estimates are based on human labels of this run's replies if there are any, and otherwise on a labelled set.
    """
    verdicts = next(iter(judged.by_judge.values()), {})
    pairs: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
    if plan.run.human_labels:
        labels = read_human_labels(
            Path(plan.run.human_labels), plan.people_scales, plan.tasks_with_own_criteria, plan.config.limits
        )
        for label, word in resolved_labels(labels):
            verdict = verdicts.get((f"{label.task}/{label.id}", label.tutor, label.criterion))
            if word is not None and verdict is not None:
                pairs[label.criterion].append((word, verdict, 1 / (label.probability or 1.0)))
    source = f"{plan.run.human_labels}"
    if not pairs:
        source = add_labelled_pairs(plan, loaded, next(iter(judged.by_judge), None), pairs)
    rates: dict[str, list[float]] = defaultdict(list)
    desired = {
        name: loaded.rubric.rules.desired_label(criterion.desired)
        for candidate in candidates
        for name, criterion in candidate.criteria.items()
    }
    for (_, _, criterion), value in verdicts.items():
        if value is not None and desired.get(criterion) is not None:
            rates[criterion].append(float(value == desired[criterion]))
    return {
        name: estimate_pilot(
            [(float(word == goal), float(verdict == goal)) for word, verdict, _ in pairs.get(name, [])],
            rates[name],
            source,
            [weight for _, _, weight in pairs.get(name, [])],
        )
        for name, goal in desired.items()
        if goal is not None
    }


def add_labelled_pairs(
    plan: Plan, loaded: LoadedRubric, judge: str | None, pairs: dict[str, list[tuple[str, str, float]]]
) -> str:
    """Add human labels and a judge's verdicts from a labelled set to `pairs`. Return the set's title, or "".

    pairs: label, verdict and weight of each reply, by criterion.
    """
    if judge is None:
        return ""
    file = Path(paths.LABELLED_VERDICTS.of(judge=judge))
    for release in plan.validating_releases(judge) if file.is_file() else []:
        folder = Path(paths.LABELS.of(release=release)).parent
        rubric = plan.rubric_for_release(judge, release)
        if rubric is None or rubric.name != loaded.name or not (folder / "about.json").is_file():
            continue
        judgements = (judgement for judgement in read_records(file, Judgement) if judgement.task == release)
        verdicts = verdict_labels(judgements)
        for label in read_labelled_data(folder).labels:
            verdict = verdicts.get((label.id, label.tutor, label.criterion))
            if verdict is not None:
                pairs[label.criterion].append((label.label, verdict, 1 / (label.probability or 1.0)))
        return plan.label_sets[release].title
    return ""
