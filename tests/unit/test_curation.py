"""Tests of curation: parsers of every stage, and every branch walked by scripted models and counted by hand."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from curator import SEED, Curator, entries, roles, stage_of, steps
from httpserver import serving
from maieutic.benchmarks.kmpbench import items as kmp
from maieutic.benchmarks.kmpbench.final_answers import grade_rounds
from maieutic.config.curation import STAGES as STAGE_CARDS
from maieutic.config.curation import Roles, read_stage, stage_names
from maieutic.config.prompts import template_variables
from maieutic.core import files
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest
from maieutic.core.records import Item, read_records, write_records
from maieutic.curation import dialogues, examples, leakage, parsers, quality, rules, sets, standards
from maieutic.curation.parsers import AnswerFormatError
from maieutic.curation.pipeline import (
    STAGES,
    MakeComponents,
    WriteDialogues,
    WriteFlows,
    make_components,
    write_dialogues,
    write_flows,
)
from maieutic.curation.records import Components, Dialogue, Flow, Outcome, Seed
from maieutic.curation.rules import ProductRejected, StageAnswer
from maieutic.curation.seeds import SeedSource, evaluation_seeds, make_seeds, seeds_of
from maieutic.curation.stage_runner import StageRunner
from maieutic.datasets.text import cluster_of
from maieutic.graders.gold import gold_rounds
from obedient_judge import prompt_of

# parsers --------------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"id": "x", "options": [{"code": "3.OA.A"}, {"code": "OA"}, {"code": "2"}]}
BOX = r"So \boxed{12}."
CORRECTION = (
    "<correctness>no</correctness><error_step>Bad sum.</error_step><error_step_num>2</error_step_num>"
    "<corrected_solution>Step 1: a\nStep 2: b</corrected_solution><answer>12</answer>"
)
TURNS = "".join(f"<type{n}>{kind}</type{n}><query{n}>q</query{n}><answer{n}>a</answer{n}>" for n, kind in enumerate(("What", "how", "WHY."), 1))  # fmt: skip
FLOW = (
    "<tutor_persona>P</tutor_persona><student_profile>S</student_profile><objectives>- one\n* two\n\n</objectives>"
    "<storyline>T</storyline><Sflow1><action>a</action><source_material>&lt;seed&gt;</source_material></Sflow1>"
    "<Tflow1><action>b</action><source_material><seed>, <seed_solution></source_material>"
    "<principles>Modeling, Feedback,feedback</principles></Tflow1>"
)

OPTIONED = "What is 3 x 4? (A) 7 (B) 12 (C) 34"
CHOSEN = {"problem": OPTIONED, "answer": "B"}
CHOICE_POSED = f"<question>{OPTIONED}</question><solution>\\boxed{{B}}</solution><answer>B</answer>"

PARSED: list[tuple[str, str, dict[str, Any], Any]] = [
    ("choice", "<choice>oa, 3.OA.A. , XY</choice>", OPTIONS, ["OA", "3.OA.A"]),
    ("choice", "<choice>2; 2\nOA,3.OA.A</choice>", OPTIONS, ["2", "OA"]),
    ("choice", "<choice>none</choice>", OPTIONS, []),
    ("choice", "<choice>OA</choice> no: <Choice>\n2 </CHOICE>", OPTIONS, ["2"]),
    ("validation", f"<judge> y </judge><solution>{BOX}</solution>", {}, (True, BOX, "12")),
    ("validation", f"<judge>N.</judge><solution>{BOX} {BOX}</solution>", {}, (False, f"{BOX} {BOX}", None)),
    ("validation", "<judge>Y</judge>", {}, (True, "", None)),
    ("choice", "<choice>Turn 5</choice>", {"options": [{"code": 5}, {"code": 15}]}, ["5"]),
    ("choice", "<choice>**OA**: Operations and NF</choice>", {"options": [{"code": "OA"}, {"code": "NF"}]}, ["OA", "NF"]),
    ("choice", "<choice>[1.OA.A]; 1.OA.A.1</choice>", {"options": [{"code": "1.OA.A"}, {"code": "1.OA.A.1"}]}, ["1.OA.A", "1.OA.A.1"]),
    ("choice", "<choice>1.OA.B.2, 11.OA.A</choice>", {"options": [{"code": "1.OA.B"}, {"code": "1.OA.A"}]}, []),
    ("boxed", r"2 + 2 = 4, \boxed{1,204}", {}, "1204"),
    ("boxed", "The answer is 3.50", {}, "3.5"),
    ("boxed", r"\boxed{\frac{1}{3}}", {}, "0.333333333333333"),
    ("final_answer", " It is 7. ", {}, ("It is 7.", "7")),
    ("steps", "<steps>Step 1: a\n**Step 2:** b\nmore</steps><answer>$7</answer>", {}, (["a", "b\nmore"], "7")),
    ("steps", "<steps>Here are the steps:\n**Step 1**: a\n### Step 2 \u2014 b</steps><answer>7</answer>", {}, (["a", "b"], "7")),
    ("steps", "<steps>Step 1: a Step 2: as in Step 1: b</steps><answer>7</answer>", {}, (["a", "as in Step 1: b"], "7")),
    ("steps", "<steps>- Step 1. a\n- Step 2. b</steps><answer>7</answer>", {}, (["a", "b"], "7")),
    ("judgement", "<judge>**Y**</judge>", {}, True),
    ("judgement", "<judge>N</judge>", {}, False),
    ("feedback", "<correctness>Yes.</correctness>", {}, (0, "", None, [])),
    ("feedback", CORRECTION, {}, (2, "Bad sum.", "12", ["a", "b"])),
    ("clarification", f"<result>yes</result>{TURNS}", {}, (["What", "How", "Why"], True)),
    ("flow", FLOW, {"id": "x"}, (["one", "two"], [["seed", "seed_solution"]], [["modelling", "feedback"]])),
    ("decision", "<decision>Keep.</decision><last>none</last>", {}, ("keep", None)),
    ("decision", "<decision>truncate</decision><last>exchange 8</last>", {}, ("truncate", 8)),
    ("decision", "<decision>discard</decision><last>3</last>", {}, ("discard", None)),
    ("dialogue", "<S1>a</S1><T1>b</T1><S2>c</S2><T2>d</T2>", {}, [("a", "b"), ("c", "d")]),
    ("instruction", "<instruction> Be kind. </instruction>", {}, "Be kind."),
    ("posed", f"<question>Q</question><solution>{BOX}</solution><answer>12 apples</answer>", {}, ("Q", BOX, "12", False)),
    ("posed", CHOICE_POSED, {}, (OPTIONED, r"\boxed{B}", "B", False)),
    ("posed", CHOICE_POSED.replace(r"\boxed{B}", r"\boxed{12}"), {}, (OPTIONED, r"\boxed{12}", "B", False)),
    ("validation", r"<judge>Y</judge><solution>\boxed{\text{B}}</solution>", CHOSEN, (True, r"\boxed{\text{B}}", "B")),
    ("boxed", "So the answer is (C).", {"problems": [{"problem": "P"}, {"problem": OPTIONED}], "answer": "B"}, "C"),
    ("final_answer", r"It is \boxed{7}.", CHOSEN, (r"It is \boxed{7}.", "A")),
    ("steps", "<steps>Step 1: a\nStep 2: b</steps><answer>(B) 12</answer>", CHOSEN, (["a", "b"], "B")),
    ("posed", f"<question2>Q</question2><solution2>{BOX}</solution2><answer>12</answer><result>YES</result>", {"problems": [1]}, ("Q", BOX, "12", True)),
]  # fmt: skip
LIMITS = {"most": 2.0}


def flat(name: str, value: Any) -> Any:
    """Return a parsed value in the form of the table."""
    if name == "feedback":
        return value.feedback.step, value.feedback.reason, value.answer, value.corrected
    if name == "clarification":
        return [turn.kind for turn in value.product], value.refined
    if name == "flow":
        return (
            value.objectives,
            [exchange.tutor_materials for exchange in value.exchanges],
            [exchange.principles for exchange in value.exchanges],
        )
    if name == "dialogue":
        return value.product
    if name == "posed":
        return value.product.problem, value.product.solution, value.product.answer, value.refined
    return tuple(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(("name", "text", "about", "expected"), PARSED)
def test_an_answer_is_read(name: str, text: str, about: dict[str, Any], expected: Any) -> None:
    limits = {"most": 3.0} if name == "steps" else LIMITS
    assert flat(name, parsers.PARSERS[name](text, about, limits)) == expected


UNPARSABLE = [
    ("choice", "OA", "no <choice>"),
    ("choice", "<choice></choice>", "no <choice>"),
    ("choice", "<choice>OA", "no <choice>"),
    ("validation", "<judge>maybe</judge>", "<judge> is neither y nor n"),
    ("boxed", "I do not know.", "no final answer"),
    ("boxed", r"\boxed{1e400}", "no final answer"),
    ("steps", "<steps>Step 1: a</steps><answer>1</answer>", "too few or too many steps"),
    ("steps", "<steps>a\nb</steps><answer>1</answer>", "no numbered steps"),
    ("steps", "<steps>Two of them.\nStep 1: a\nStep 2: b</steps><answer>1</answer>", "no numbered steps"),
    ("steps", "<steps>well: Step 1: a Step 2: b</steps><answer>1</answer>", "no numbered steps"),
    ("steps", "<steps>Step 1:\nStep 2: b</steps><answer>1</answer>", "an empty step"),
    ("steps", "<steps>Step 1: a\nStep 2: b\nStep 3: c</steps><answer>1</answer>", "too few or too many"),
    ("steps", "<steps>Step 1: a\nStep 2: b</steps>", "no <answer>"),
    ("judgement", "Y", "no <judge>"),
    ("feedback", "<correctness>no</correctness>", "no <error_step_num>"),
    ("feedback", CORRECTION.replace(">2<", ">the last<"), "is not a number"),
    ("feedback", CORRECTION.replace("Bad sum.", " "), "no <error_step>"),
    ("feedback", CORRECTION.replace("Step 2: b", "Step 2: b\nStep 3: c"), "too many steps"),
    ("clarification", TURNS.replace("type2", "type4"), "<type> tags are not numbered from 1"),
    ("clarification", TURNS.replace("<query2>q</query2>", ""), "not numbered|differ in number"),
    ("clarification", TURNS.replace("How", "Who").replace("how", "Who"), "a type that is not"),
    ("clarification", "", "differ in number"),
    ("flow", FLOW.replace("Tflow1", "Tflow2"), "not numbered"),
    ("flow", FLOW.replace("<principles>", "<principle>"), "no <principles>"),
    ("flow", FLOW.replace("<storyline>T</storyline>", ""), "no <storyline>"),
    ("decision", "<decision>perhaps</decision>", "is not keep"),
    ("decision", "<decision>truncate</decision><last>none</last>", "no number in <last>"),
    ("dialogue", "<S1>a</S1>", "do not take turns"),
    ("dialogue", "<S1>a</S1><T1></T1>", "an empty <T>"),
    ("posed", f"<question>Q</question><solution>{BOX}</solution><answer>13</answer>", "answer and box differ"),
    ("posed", f"<question>Q</question><solution>{BOX} {BOX}</solution><answer>12</answer>", "several boxes"),
    ("posed", "<question>Q</question><solution>12</solution><answer>12</answer>", "no box"),
    ("posed", r"<question>Q</question><solution>\boxed{x}</solution><answer>12</answer>", "no number in the box"),
    ("posed", f"<question>Q</question><solution>{BOX}</solution><answer>none</answer>", "no final answer"),
    ("instruction", "Be kind.", "no <instruction>"),
    ("choice", "<choice>" * 20_000, "no <choice>"),
    ("clarification", "<type1>" * 20_000 + "</type1>" * 5, "an empty <type>"),
    ("clarification", "".join(f"<type{number % 900}>" for number in range(40_000)), "differ in number"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "why"), UNPARSABLE)
def test_an_answer_in_another_format_is_refused_with_a_reason(name: str, text: str, why: str) -> None:
    with pytest.raises(AnswerFormatError, match=why):
        parsers.PARSERS[name](text, OPTIONS, LIMITS)


# branches of every stage ----------------------------------------------------------------------------------------------


def replaced(pattern: str, by: str, attempts: int = 9) -> Any:
    """Return a fault: a function that replaces a pattern in a good answer, in attempts below `attempts`."""

    def fault(answer: str, attempt: int) -> str:
        return re.sub(pattern, by, answer, flags=re.DOTALL) if attempt < attempts else answer

    return fault


REFUSAL = replaced(".*", "I would rather not.")
REFUSAL_ONCE = replaced(".*", "Pardon?", 1)
BRANCHES: list[tuple[str, str, Any, str, str | None]] = [
    ("tag-none", "tag", replaced(r"<choice>.*</choice>", "<choice>none</choice>"), "tag_domain", "none chosen"),
    ("tag-odd", "tag", REFUSAL, "tag_domain", "not parsed: no <choice>"),
    ("judge-n", "validate_seed", replaced("<judge>Y", "<judge>N"), "validate_seed", "a validator answered N"),
    ("judge-odd", "validate_seed", REFUSAL, "validate_seed", "not parsed: no <judge>"),
    ("no-box", "validate_seed", replaced(r"\\boxed", "box"), "validate_seed", "no validator's solution has one box"),
    ("wrong-box", "validate_seed", replaced(r"\\boxed\{", r"\\boxed{9"), "validate_seed", "a validator's own solution has another answer"),
    ("f-again", "follow_up", REFUSAL_ONCE, "follow_up", None),
    ("f-odd", "follow_up", REFUSAL, "follow_up", "not parsed: no <question2>"),
    ("f-same", "follow_up", replaced(r"(<question\d>).*?(\[f-same )\d+", r"\1Ann counts. \g<2>5"), "follow_up", "the question repeats an earlier one"),
    ("f-differ", "follow_up", replaced(r"<answer>\d+", "<answer>1"), "follow_up", "not parsed: answer and box differ"),
    ("f-refined", "follow_up", replaced("<result>no", "<result>yes"), "follow_up", None),
    ("solve-no", "solve", replaced(r"\\boxed\{", r"\\boxed{8"), "solve_follow_up", "no majority for the answer"),
    ("w-right", "wrong_solution", lambda answer, attempt: r"It is \boxed{5}.", "wrong_solution", "no wrong solution"),
    ("w-one", "wrong_solution", lambda answer, attempt: r"It is \boxed{6}.", "wrong_solution", "only one wrong solution"),
    ("w-odd", "wrong_solution", REFUSAL, "wrong_solution", "no wrong solution"),
    ("r-odd", "rephrase", REFUSAL, "rephrase", "not parsed: no <steps>"),
    ("r-answer", "rephrase", replaced(r"<answer>\d+", "<answer>77"), "rephrase", "the answer changed"),
    ("v-n", "verify_rephrasing", replaced("Y", "N"), "verify_rephrasing", "a judge answered N"),
    ("c-odd", "correct", REFUSAL, "correct", "not parsed: no <correctness>"),
    ("c-right", "correct", lambda answer, attempt: "<correctness>yes</correctness>", "correct", "a wrong solution is called right"),
    ("c-step", "correct", replaced("<error_step_num>.", "<error_step_num>3"), "correct", "a step that the solution does not have"),
    ("c-zero", "correct", replaced("<error_step_num>.", "<error_step_num>0"), "correct", "a wrong solution is called right"),
    ("c-answer", "correct", lambda answer, attempt: re.sub(r"(<answer>|boxed\{)\d+", r"\g<1>1", answer), "correct", "the corrected answer is wrong"),
    ("c-differ", "correct", replaced(r"<answer>\d+", "<answer>1"), "correct", "not parsed: answer and box differ"),
    ("c-rewrite", "correct", replaced("Step 1: There", "Step 1: Here"), "correct", "steps before the mistake were rewritten"),
    ("s-odd", "similar", REFUSAL, "similar", "not parsed: no <question1>"),
    ("s-copy", "similar", lambda answer, attempt: re.sub("<question>.*</question>", f"<question>{text_of('s-copy', 6)}</question>", answer), "similar", "overlaps the seed by more than 90%"),
    ("k-odd", "clarify", REFUSAL, "clarify", "not parsed: types, queries and answers differ in number"),
    ("k-two", "clarify", replaced("<type3>.*", ""), "clarify", "too few or too many turns"),
    ("k-why", "clarify", replaced("<type3>Why", "<type3>What"), "clarify", "no Why"),
    ("k-again", "clarify", REFUSAL_ONCE, "clarify", None),
    ("p-odd", "flow", REFUSAL, "flow", "not parsed: no <objectives>"),
    ("p-strange", "flow", replaced("<source_material>seed<", "<source_material>seed_song<"), "flow", "an unknown material"),
    ("p-three", "flow", replaced("Feedback,", "Feedback,Practice,"), "flow", "not one or two principles"),
    ("p-other", "flow", replaced("Feedback,", "Praise,"), "flow", "an unknown principle"),
    ("p-short", "flow", replaced("<Sflow2>.*", ""), "flow", "too few or too many exchanges"),
    ("p-again", "flow", REFUSAL_ONCE, "flow", None),
    ("d-discard", "verify_flow", replaced("truncate", "discard"), "verify_flow", "discarded"),
    ("d-keep", "verify_flow", replaced("truncate", "keep"), "verify_flow", None),
    ("d-beyond", "verify_flow", replaced("<last>2", "<last>9"), "verify_flow", "truncated after an exchange that does not exist"),
    ("d-odd", "verify_flow", REFUSAL, "verify_flow", "not parsed: no <decision>"),
    ("e-odd", "expand", REFUSAL, "expand", "not as many exchanges as planned"),
    ("e-more", "expand", lambda answer, attempt: answer + "<S3>a</S3><T3>b</T3>", "expand", "not as many exchanges as planned"),
    ("e-turns", "expand", replaced("<T2>.*?</T2>", ""), "expand", "not parsed: student and tutor do not take turns"),
    ("e-refined", "expand", replaced("<result>no", "<result>yes"), "expand", None),
    ("t-none", "choose_turns", replaced(r"\d+", "none"), "choose_turns", "none chosen"),
    ("i-odd", "write_instruction", REFUSAL, "write_instruction", "not parsed: no <instruction>"),
]  # fmt: skip


def text_of(case: str, answer: int) -> str:
    """Return the text of a seed's problem."""
    return f"Ann counts. [{case} {answer}]"


def seed_of(case: str, answer: int = 5) -> Seed:
    """Return a seed whose problem names its case and its answer."""
    text = text_of(case, answer)
    return Seed(
        id=case, source="own", licence="CC0", cluster=cluster_of(text), problem=text, solution="", answer=str(answer)
    )


class Curated:
    """A scripted curation with its folder."""

    address = ""

    def __init__(self, folder: Path, seeds: list[Seed], script: Curator, people: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.script, self.people = folder, script, people
        self.seeds = folder / "seeds.jsonl"
        write_records(self.seeds, seeds)

    def at(self, name: str) -> Path:
        return self.folder / name

    def run(self, address: str, share: float = 1.0) -> None:
        """Run all three jobs."""
        job_fields: dict[str, Any] = {
            "curation": "c", "roles": Roles(**roles()), "models": entries(address), "seed": SEED,
        }  # fmt: skip
        logs = self.at("logs")
        make_components(
            job=MakeComponents(**job_fields), seeds=self.seeds, weights=[], journal=self.at("1.journal"), server_logs=logs,
            out=self.at("components.jsonl"),
        )  # fmt: skip
        write_flows(
            job=WriteFlows(**job_fields), components=self.at("components.jsonl"),
            people=[self.people] if self.people else [], weights=[], journal=self.at("2.journal"), server_logs=logs,
            out=self.at("flows.jsonl"), sheet=self.at("flows.csv"),
        )  # fmt: skip
        write_dialogues(
            job=WriteDialogues(**job_fields, evaluation_share=share), seeds=self.seeds,
            components=self.at("components.jsonl"), flows=self.at("flows.jsonl"), weights=[],
            journal=self.at("3.journal"), server_logs=logs, out=self.at("dialogues.jsonl"),
        )  # fmt: skip

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for step in STAGES for outcome in read_records(self.at(f"outcomes/{step}.jsonl"), Outcome)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curated]:
    """Run a curation of one good seed and one seed for each branch."""
    faults = {case: (stage, fault) for case, stage, fault, *_ in BRANCHES}
    script = Curator(faults)
    seeds = [seed_of("good"), *(seed_of(case, 6 if case == "s-copy" else 5) for case in faults)]
    curated = Curated(tmp_path_factory.mktemp("walked"), seeds, script)
    with serving(script.handler()) as curated.address:
        curated.run(curated.address)
        yield curated


def test_a_good_seed_comes_to_the_end_with_all_that_the_paper_asks_for(walked: Curated) -> None:
    [components] = [record for record in read_records(walked.at("components.jsonl"), Components) if record.id == "good"]
    assert [follow_up.answer for follow_up in components.followups] == ["15", "25"]
    assert {level: similar.answer for level, similar in components.similar.items()} == {
        "easy": "105",
        "medium": "205",
        "hard": "305",
    }
    assert [solution.feedback.step for solution in components.solutions] == [1, 2, 0]
    assert components.domain.startswith("Operations")
    assert len({solution.answer for solution in components.solutions}) == 3
    assert [turn.kind for turn in components.clarifications] == ["What", "How", "Why"]
    assert components.solution == f"{steps(5)} \\boxed{{5}}"
    [flow] = [record for record in read_records(walked.at("flows.jsonl"), Flow) if record.id == "good"]
    assert len(flow.exchanges) == 2 and flow.exchanges[1].principles == ["feedback", "explanation"]
    [dialogue] = [record for record in read_records(walked.at("dialogues.jsonl"), Dialogue) if record.id == "good"]
    assert [turn.speaker for turn in dialogue.turns] == ["student", "tutor"] * 2
    assert dialogue.turns[3].evaluate and dialogue.turns[3].instruction and not dialogue.turns[1].evaluate


class Choosing(Curator):
    """Script with option letters in place of the seed's answer and of the wrong answers."""

    LETTERS: ClassVar = {"5": "B", "6": "C", "7": "D", "8": "E", "9": "F"}

    def answer(self, body: dict[str, Any]) -> str:
        """Return a good answer, with a letter wherever the seed's problem is answered."""
        lettered = stage_of(prompt_of(body)) in {"validate_seed", "wrong_solution", "rephrase", "correct"}

        def by_letter(match: re.Match[str]) -> str:
            return match[1] + self.LETTERS[match[2]]

        answer = super().answer(body)
        return re.sub(r"(<answer>|boxed\{)([5-9])(?=\D)", by_letter, answer) if lettered else answer


def test_a_multiple_choice_seed_comes_to_the_end(tmp_path: Path) -> None:
    """The seed's solutions end with an option, those of derived problems with numbers; the sets load as tasks."""
    text = "Ann counts. How many? (A) 4 (B) 5 (C) 6 (D) 7 (E) 8 (F) 9\n[choice 5]"
    seed = seed_of("choice").model_copy(update={"problem": text, "answer": "B"})
    curated = Curated(tmp_path, [seed], Choosing())
    with serving(curated.script.handler()) as curated.address:
        curated.run(curated.address)
    [components] = read_records(curated.at("components.jsonl"), Components)
    assert components.answer == "B" and [problem.answer for problem in components.followups] == ["15", "25"]
    *wrong, right = components.solutions
    assert right.answer == "B" and len(wrong) == 2
    assert all(solution.answer in {"C", "D", "E", "F"} for solution in wrong)
    [line] = map(sets.skills_record, [components])
    [item] = kmp.kmp_fqa_items([line], "fqa")
    golds = gold_rounds(item)
    right_readings = grade_rounds(item, golds.right, "robust")
    wrong_readings = grade_rounds(item, golds.wrong[0], "robust")
    assert [reading.correct for reading in right_readings] == [True] * 3 and right_readings[0].value == "B"
    assert [reading.correct for reading in wrong_readings] == [False] * 3


def test_every_template_of_a_generator_has_room_for_examples() -> None:
    """The template of each generating stage shows the card's examples."""
    stages = [stage for stage in map(read_stage, stage_names()) if stage.card.role == "generator"]
    assert len(stages) > 5
    for stage in stages:
        assert "shots" in template_variables(stage.template), stage.name


OWN_EXAMPLES = ("follow_up", "rephrase", "correct", "similar", "flow", "expand")
SEED_OF_EXAMPLES = {
    "problem": "Mia has 3 boxes with 8 pencils each.", "answer": "19", "student": "3 + 8 = 11", "exchanges": 2, "flow": None, "id": "s",
    "problems": [{"problem": "Mia has 3 boxes with 8 pencils each.", "solution": "19"}],
    "materials": [SimpleNamespace(name=name, text="") for name in ("seed", "seed_solution", "seed_student1")],
}  # fmt: skip


@pytest.mark.parametrize("stage", OWN_EXAMPLES)
def test_our_examples_are_off_by_default_marked_and_good_answers(stage: str, tmp_path: Path) -> None:
    """The paper's examples for six generating stages are not printed (KMP-Bench, section 2.2 and Appendix D)."""
    loaded, name = read_stage(stage), f"{stage}.ours.shots.txt"
    text = (STAGE_CARDS / name).read_text(encoding="utf-8")
    assert not loaded.shots and "written for Maieutic" in text.splitlines()[0]
    parsed = parsers.PARSERS[loaded.card.parser](
        text, SEED_OF_EXAMPLES, {"most": 20, "fewest": 2, **loaded.card.limits}
    )
    assert parsed
    for file in (name, loaded.card.prompt):
        (tmp_path / file).write_bytes((STAGE_CARDS / file).read_bytes())
    card = (STAGE_CARDS / f"{stage}.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{stage}.yaml").write_text(f"{card}shots: {name}\n", encoding="utf-8")
    assert read_stage(stage, tmp_path).shots == text, "one line on the card switches them on"


def test_examples_that_a_template_does_not_show_are_refused(tmp_path: Path) -> None:
    for file in ("solve.jinja", "solve_similar.yaml"):
        (tmp_path / file).write_text((STAGE_CARDS / file).read_text())
    (tmp_path / "solve.shots.txt").write_text("An example.")
    card = tmp_path / "solve_similar.yaml"
    card.write_text(card.read_text() + "shots: solve.shots.txt\n")
    with pytest.raises(UserError, match=r"shots: the template solve\.jinja does not use solve\.shots\.txt"):
        read_stage("solve_similar", tmp_path)


@pytest.mark.parametrize(("case", "stage", "reason"), [(case, stage, why) for case, _, _, stage, why in BRANCHES])
def test_every_branch_is_walked(walked: Curated, case: str, stage: str, reason: str | None) -> None:
    outcomes = [outcome for outcome in walked.outcomes if outcome.seed == case]
    of_stage = [outcome for outcome in outcomes if outcome.stage == stage]
    assert reason in [outcome.reason for outcome in of_stage]
    ended = "complete" if stage in STAGES["make_components"][4:] else stage
    finished = case in {dialogue.id for dialogue in read_records(walked.at("dialogues.jsonl"), Dialogue)}
    # If one wrong solution is rejected, the next candidate replaces it.
    assert finished == (reason is None or case == "c-rewrite")
    if reason is None:
        assert not [outcome for outcome in outcomes if outcome.reason]
        assert any(outcome.refined for outcome in of_stage) == case.endswith("refined")
        assert any(outcome.attempts == 2 for outcome in of_stage) == case.endswith("again")
        assert any(outcome.truncated for outcome in outcomes) == (case != "d-keep")
    else:
        rejected = next(outcome for outcome in of_stage if outcome.reason == reason)
        assert rejected.product and all(part["text"] for part in rejected.product) and rejected.by
        assert rejected.attempts == read_stage(stage).card.attempts
        last = [outcome for outcome in outcomes if outcome.stage == ended]
        assert last and bool(last[-1].reason) == (not finished)


def test_counts_of_every_stage_add_up(walked: Curated) -> None:
    outcomes = walked.outcomes
    order = [*STAGES["make_components"], "complete", *STAGES["write_flows"], *STAGES["write_dialogues"]]
    table = {row["stage"]: row for row in quality.stage_yields(outcomes, order)}
    assert list(table) == order
    for stage, row in table.items():
        assert row["came_in"] == row["accepted"] + sum(row["rejected"].values()), stage
        assert row["came_in"] == sum(outcome.stage == stage for outcome in outcomes)
    branches = {stage: Counter(part for _, _, _, stage_, part in BRANCHES if stage_ == stage) for stage in order}
    assert table["tag_domain"]["came_in"] == len(BRANCHES) + 1
    assert table["tag_domain"]["accepted"] == table["tag_cluster"]["came_in"] == len(BRANCHES) - 1
    assert table["validate_seed"]["came_in"] == len(BRANCHES) + 1
    assert table["validate_seed"]["rejected"] == dict(branches["validate_seed"].most_common())
    # Every complete seed has a flow, every kept flow is expanded, and a turn is chosen in every dialogue.
    assert table["complete"]["accepted"] == table["flow"]["came_in"]
    assert table["flow"]["accepted"] == table["verify_flow"]["came_in"]
    assert table["verify_flow"]["accepted"] == table["expand"]["came_in"]
    assert table["expand"]["accepted"] == table["choose_turns"]["came_in"]
    dialogues = read_records(walked.at("dialogues.jsonl"), Dialogue)
    assert table["write_instruction"]["accepted"] == len(dialogues)
    assert table["validate_seed"]["came_in"] == len(BRANCHES) + 1
    assert table["validate_seed"]["accepted"] == len(BRANCHES) - 3


def test_nothing_is_asked_twice_and_a_second_run_asks_nothing(walked: Curated) -> None:
    assert max(walked.script.requests.values()) == 1
    requests = sum(walked.script.asked.values())
    journals = [walked.at(f"{number}.journal") for number in (1, 2, 3)]
    assert requests == sum(len(path.read_text(encoding="utf-8").splitlines()) for path in journals)
    paths = [path for path in walked.folder.rglob("*") if path.suffix in {".jsonl", ".csv"} and path != walked.seeds]
    before = {path: path.read_bytes() for path in paths}
    assert len(before) == 7
    for path in before:
        path.unlink()
    walked.run(walked.address)
    assert sum(walked.script.asked.values()) == requests
    assert {path: path.read_bytes() for path in before} == before


# people ---------------------------------------------------------------------------------------------------------------


def sheet_of(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Write a sheet as people fill it in and return its path."""
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(("flow", "problem", "plan", "decision", "last"))
        writer.writerows((flow, "p", "q", decision, last) for flow, decision, last in rows)
    return path


def test_people_decide_instead_of_the_verifier(tmp_path: Path) -> None:
    seeds = [seed_of(name) for name in ("a-1", "a-2", "a-3", "a-4")]
    script = Curator()
    people = sheet_of(
        tmp_path / "people.csv",
        [("a-1", "Keep", ""), ("a-2", "truncate", "1"), ("a-3", "discard", ""), ("a-4", "truncate", "7")],
    )
    curated = Curated(tmp_path / "c", seeds, script, people)
    with serving(script.handler()) as address:
        curated.run(address)
    assert script.asked["verify_flow"] == 0
    flows = {flow.id: len(flow.exchanges) for flow in read_records(curated.at("flows.jsonl"), Flow)}
    assert flows == {"a-1": 3, "a-2": 1}
    outcomes = {
        outcome.seed: (outcome.reason, outcome.truncated, outcome.by)
        for outcome in curated.outcomes
        if outcome.stage == "verify_flow"
    }
    assert outcomes == {
        "a-1": (None, False, ["people"]),
        "a-2": (None, True, ["people"]),
        "a-3": ("discarded", False, ["people"]),
        "a-4": ("truncated after an exchange that does not exist", False, ["people"]),
    }
    with open(curated.at("flows.csv"), encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["flow"] for row in rows] == ["a-1", "a-2", "a-3", "a-4"]
    assert "T2 [seed_student1_correction] (feedback, explanation) Says where it is wrong" in rows[0]["plan"]
    # A written sheet can be read again.
    for row in rows:
        row["decision"] = "keep"
    with open(tmp_path / "again.csv", "w", encoding="utf-8-sig", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    assert {
        name: decision.decision for name, decision in dialogues.read_flow_decisions(tmp_path / "again.csv").items()
    } == dict.fromkeys(("a-1", "a-2", "a-3", "a-4"), "keep")


@pytest.mark.parametrize(("rows", "expected"), [
    ([("a", "", ""), ("b", "perhaps", "")], "row 2: expected .* as the decision on a, found ''.*\n.*row 3: expected .* as the decision on b, found 'perhaps'"),
    ([("a", "truncate", "")], "found last '' with the decision truncate"),
    ([("a", "keep", "3")], "found last '3' with the decision keep"),
    ([("a", "truncate", "soon")], "found last 'soon' with the decision truncate"),
    ([("a", "keep", ""), ("a", "keep", "")], "found a second row for the flow a"),
])  # fmt: skip
def test_a_sheet_with_faults_names_every_row(tmp_path: Path, rows: list[tuple[str, str, str]], expected: str) -> None:
    with pytest.raises(UserError) as error:
        dialogues.read_flow_decisions(sheet_of(tmp_path / "s.csv", rows))
    assert re.search(expected, error.value.lines)


def test_a_sheet_of_other_flows_is_refused(tmp_path: Path) -> None:
    script = Curator()
    for rows, expected in (
        ([("a-1", "keep", "")], "found no decision on 1 of 2 flows: a-2"),
        ([("a-1", "keep", ""), ("a-2", "keep", ""), ("b", "keep", "")], "found flows that the curation lacks: b"),
    ):
        people = sheet_of(tmp_path / "people.csv", rows)
        curated = Curated(tmp_path / "c", [seed_of("a-1"), seed_of("a-2")], script, people)
        with serving(script.handler()) as address, pytest.raises(UserError, match=expected):
            curated.run(address)
    (tmp_path / "people.csv").write_text("flow,verdict\na,keep\n")
    with pytest.raises(UserError, match="expected columns decision, last, found"):
        dialogues.read_flow_decisions(tmp_path / "people.csv")


# the sets -------------------------------------------------------------------------------------------------------------


def assembled(tmp_path: Path, share: float, count: int = 6) -> tuple[Curated, Path]:
    """Run a scripted curation and return it with the folder of its sets."""
    script = Curator()
    curated = Curated(tmp_path / "c", [seed_of(f"case-{number}", 5 + number) for number in range(count)], script)
    with serving(script.handler()) as address:
        curated.run(address, share)
    out = tmp_path / "sets"
    sets.assemble_sets(
        job=sets.AssembleSets(curation="c", roles=Roles(**roles()), answering={"maker": "m"}, prompts={"flow.yaml": "1" * 64}, evaluation_share=share, seed=SEED),
        seeds=curated.seeds, components=curated.at("components.jsonl"), dialogues=curated.at("dialogues.jsonl"),
        out=out / "skills.jsonl", tests=out / "dialogues.jsonl", raw=out / "raw.jsonl", sheet=out / "evaluation.json",
    )  # fmt: skip
    return curated, out


def test_the_sets_are_in_the_formats_that_the_benchmark_reads(tmp_path: Path) -> None:
    curated, out = assembled(tmp_path, 0.5)
    skills, tests = files.read_json_lines(out / "skills.jsonl"), files.read_json_lines(out / "dialogues.jsonl")
    assert len(skills) == len(tests) == 3 and len(files.read_json_lines(out / "raw.jsonl")) == 3
    assert len(kmp.kmp_fqa_items(skills, "fqa")) == 3
    assert len(kmp.kmp_ec_items(skills, "ec")) == 9
    assert (
        len(kmp.kmp_gen_similar_items(skills, "gen_similar"))
        == len(kmp.kmp_gen_followup_items(skills, "gen_followup"))
        == 3
    )
    cases = kmp.kmp_dialogue_items(tests, "dialogue")
    assert len(cases) == 3 and all(item.vars["instruction"].startswith("You are a patient") for item in cases)
    seeds = read_records(curated.seeds, Seed)
    tested = evaluation_seeds(seeds, 0.5, SEED)
    assert {record["id"] for record in skills} == tested
    assert {record["id"] for record in files.read_json_lines(out / "raw.jsonl")} == {seed.id for seed in seeds} - tested
    sheet = json.loads((out / "evaluation.json").read_text())
    assert sheet["licences"] == ["CC0"] and sheet["models"] == {"maker": "m"}
    assert sheet["skills"]["records"] == 3 and sheet["skills"]["wrong_solutions"] == 6
    assert sheet["dialogues"]["test_cases"] == 3
    assert sheet["dialogues"]["principles"] == {"questioning": 3, "feedback": 3, "explanation": 3}
    assert sheet["dialogues"]["exchanges"] == {"mean": 2, "least": 2, "most": 2}
    target = tmp_path / "results/kmp.source"
    sets.fetch_curated(made=out / "skills.jsonl", sheet=out / "evaluation.json", out=target)
    assert target.read_bytes() == (out / "skills.jsonl").read_bytes()
    with open(out / "skills.jsonl", "a") as handle:
        handle.write("{}\n")
    with pytest.raises(UserError, match=r"skills\.jsonl: expected sha256 .* Fix: delete the file and run again"):
        sets.fetch_curated(made=out / "skills.jsonl", sheet=out / "evaluation.json", out=target)


def test_an_empty_set_is_refused_in_one_line(tmp_path: Path) -> None:
    _, out = assembled(tmp_path, 0.0, 2)
    assert files.read_json_lines(out / "skills.jsonl") == [] and len(files.read_json_lines(out / "raw.jsonl")) == 2
    problem = r"the set is empty: no seed passed all stages\. Fix: find the stage that rejects most"
    with pytest.raises(UserError, match=problem):
        sets.fetch_curated(made=out / "skills.jsonl", sheet=out / "evaluation.json", out=tmp_path / "x")


def cleaned(tmp_path: Path, out: Path, curated: Curated, items: list[Item]) -> dict[str, Any]:
    """Remove leaks of the items from a training set and return its sheet."""
    write_records(tmp_path / "items.jsonl", items)
    sets.clean_training_set(
        job=sets.CleanTrainingSet(curation="c", near_duplicate=0.7, roles=Roles(**roles()), answering={}, prompts={}),
        raw=out / "raw.jsonl", items=[tmp_path / "items.jsonl"], tests=[out / "skills.jsonl", out / "dialogues.jsonl"], seeds=curated.seeds,
        out=out / "training.jsonl", parquet=out / "training.parquet", sheet=out / "training.json",
    )  # fmt: skip
    sheet: dict[str, Any] = json.loads((out / "training.json").read_text())
    return sheet


def item_of(name: str, text: str) -> Item:
    """Return an evaluation item."""
    return Item(id=name, task="t", cluster="c", vars={"question": text}, reference={})


def test_no_problem_of_an_evaluation_item_is_in_the_training_set(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    curated, out = assembled(tmp_path, 0.0, 4)
    components = {record.id: record for record in read_records(curated.at("components.jsonl"), Components)}
    same = components["case-1"].followups[0].problem
    near = components["case-2"].similar["hard"].problem.replace("case-2 307", "case-2 999").upper()
    other = "A train leaves the station at nine and comes back at noon, how long was it away?"
    items = [item_of("exact", same), item_of("near", near), item_of("other", other), item_of("short", "Ann counts.")]
    sheet = cleaned(tmp_path, out, curated, items)
    left = {leak["training"]: leak for leak in sheet["leakage"]["left_out"]}
    assert set(left) == {"case-1", "case-2"}
    assert left["case-1"]["evaluation"] == "t exact" and left["case-1"]["similarity"] == 1.0
    assert left["case-2"]["evaluation"] == "t near" and 0.5 < left["case-2"]["similarity"] < 1.0
    kept = files.read_json_lines(out / "training.jsonl")
    assert (
        [record["id"] for record in kept]
        == ["case-0", "case-3"]
        == pq.read_table(out / "training.parquet")["id"].to_pylist()
    )
    assert sheet["training"]["records"] == 2
    roles_in = [message["role"] for message in kept[0]["messages"]]
    assert roles_in == ["system", "user", "assistant", "user", "assistant"]


# single functions -----------------------------------------------------------------------------------------------------


def test_overlap_is_the_longest_common_subsequence_of_appendix_d3() -> None:
    assert rules.subsequence_overlap("abcdef", "abcdef") == 1.0
    assert rules.subsequence_overlap("abcd", "axcx") == 0.5
    assert rules.subsequence_overlap("ABCD", "abcd") == 1.0
    assert rules.subsequence_overlap("abc", "abcdefghij") == pytest.approx(0.3)


def answered(*values: Any) -> list[StageAnswer]:
    return [StageAnswer(f"m{place}", "", value) for place, value in enumerate(values)]


@pytest.mark.parametrize(("answers", "kept"), [
    (["5", "5.0", "6"], True), (["5", "6"], False), (["5", None, "5"], True), (["5", None], False), (["6", "6", "6"], False),
])  # fmt: skip
def test_more_than_half_is_a_majority(answers: list[str | None], kept: bool) -> None:
    if kept:
        assert rules.accept_majority(answered(*answers), {"answer": "5"}, {}).value
    else:
        with pytest.raises(ProductRejected):
            rules.accept_majority(answered(*answers), {"answer": "5"}, {})


@pytest.mark.parametrize(("content", "value"), [
    (r"\frac{3}{4}", "0.75"), ("1{,}000", "1000"), (r"10\,000", "10000"), (r"2\frac{1}{2}", "2.5"), (r"18\text{ cm}^2", "18"),
])  # fmt: skip
def test_a_box_is_read_with_its_latex(content: str, value: str) -> None:
    assert parsers.answer_in_only_box(rf"So it is \boxed{{{content}}}.") == value


def test_steps_of_a_long_text_are_read_in_linear_time() -> None:
    """Quadratic time would be minutes here."""
    with pytest.raises(parsers.AnswerFormatError, match="an empty step"):
        parsers.split_steps("Step 1: a" + "\n" * 400_000 + "Step 2:")
    with pytest.raises(parsers.AnswerFormatError):
        parsers.split_steps("- * # > " * 100_000)


PROBLEM = (
    "A farmer has 17 hens that lay an egg a day each; she eats three and sells the others. How many does she sell?"
)


@pytest.mark.parametrize(("message", "similarity"), [
    (f"I am stuck on my homework since yesterday. {PROBLEM} Could you please help me with it, step by step?", 1.0),
    (PROBLEM.upper().replace(";", ","), 1.0),
    (PROBLEM.replace("17", "19"), 0.8),
    ("A farmer has 17 cows. How many does she sell?", None),
    ("What is 15% of 80?", 1.0),
    ("So I said: what is 15 % of 80? And then?", None),
    ("\u041a\u043e\u043b\u044f \u0438\u043c\u0435\u0435\u0442 \u0442\u0440\u0438 \u044f\u0431\u043b\u043e\u043a\u0430", 1.0),
    ("Good.", None),
])  # fmt: skip
def test_a_problem_within_a_message_is_a_leak(message: str, similarity: float | None) -> None:
    cyrillic = "\u043a\u043e\u043b\u044f \u0438\u043c\u0435\u0435\u0442 \u0442\u0440\u0438 \u044f\u0431\u043b\u043e\u043a\u0430!"
    texts = [("hens", PROBLEM), ("share", "What is 15 % of 80?"), ("apples", cyrillic), ("said", "Good.")]
    leaks = leakage.leaks({"x": [message]}, texts, 0.6)
    assert (round(leaks["x"].similarity, 1) if leaks else None) == similarity


def test_a_tutor_that_poses_a_problem_and_a_system_message_with_one_are_leaks() -> None:
    chat = [
        {"role": "system", "content": f"You are a tutor. Problem: {PROBLEM}"},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Shall we begin?"},
    ]
    posed = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": f"Try this one: {PROBLEM}"}]
    for messages in (chat, posed):
        assert leakage.leaks({"x": sets.example_texts({"messages": messages})}, [("hens", PROBLEM)], 0.7)


def test_leaks_of_a_dialogues_problem_are_looked_for(tmp_path: Path) -> None:
    _, out = assembled(tmp_path, 1.0, 2)
    [dialogue, _] = files.read_json_lines(out / "dialogues.jsonl")
    [case] = kmp.kmp_dialogue_items([dialogue], "dialogue")
    assert dialogue["problem"] in leakage.texts_in(case)
    named = leakage.set_texts("s", [*files.read_json_lines(out / "skills.jsonl"), dialogue])
    assert len(named) == 2 * (1 + 2 + 2) + 1 and (f"s {dialogue['id']}", dialogue["problem"]) in named


def test_the_second_look_for_leaks_is_by_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leakage.EvaluationTexts, "contained_in", lambda *_: None)
    with pytest.raises(RuntimeError, match="1 training examples still contain an evaluation text, for example x"):
        leakage.without_leaks({"x": [PROBLEM], "y": ["Hello!"]}, [("hens", PROBLEM)], 0.7)


def test_examples_with_the_same_id_are_all_kept() -> None:
    records = [{"id": "conv", "n": number} for number in range(3)] + [{"id": "other", "n": 3}]
    named = examples.name_examples("s", records)
    assert list(named) == ["s conv", "s conv #2", "s conv #3", "s other"]
    assert [record["n"] for record in named.values()] == [0, 1, 2, 3]


def test_a_truncated_answer_is_not_a_solution() -> None:
    """The text contains a number, which must not count as a wrong answer or as a vote."""

    class TruncatedAnswers:
        async def ask(self, request: dict[str, Any]) -> Any:
            return FinishedRequest(
                key="k", text="There are 13 eggs. Then she bakes with 4", finish="length", seconds=0.1, attempts=1
            )

    job = MakeComponents(curation="c", roles=Roles(**roles()), models=entries("http://127.0.0.1:9"), seed=SEED)
    runner = object.__new__(StageRunner)
    runner.seed, runner.models, runner.asking = SEED, job.models, {"maker": TruncatedAnswers()}  # type: ignore[dict-item]
    for stage in ("wrong_solution", "solve_similar"):
        answer = asyncio.run(runner.ask_model("maker", "?", read_stage(stage), {}, 0, 0))
        assert answer.value is None and answer.why_none == "cut off"


def test_every_rejected_attempt_is_kept_with_what_it_decided_on(walked: Curated) -> None:
    outcomes = {(outcome.seed, outcome.stage): outcome for outcome in walked.outcomes}
    again = outcomes["k-again", "clarify"]
    assert again.reason is None and again.attempts == 2
    [earlier] = again.earlier
    assert earlier.reason.startswith("not parsed") and "Pardon?" in earlier.answers[0]["text"]
    assert outcomes["v-n", "verify_rephrasing"].judged["steps"]
    assert outcomes["solve-no", "solve_follow_up"].judged["problem"]
    assert outcomes["t-none", "choose_turns"].judged["turns"]
    assert set(outcomes["k-odd", "complete"].product) == {"follow-ups", "wrong solutions", "similar problems"}
    order = [*STAGES["make_components"], "complete", *STAGES["write_flows"], *STAGES["write_dialogues"]]
    table = {row["stage"]: row for row in quality.stage_yields(walked.outcomes, order)}
    assert sum(table["clarify"]["earlier"].values()) >= 1


def test_solutions_in_any_script_are_told_apart() -> None:
    first = "\u041e\u0442\u0432\u0435\u0442 6"
    second = "\u041f\u043e\u043b\u0443\u0447\u0438\u043b\u043e\u0441\u044c 6"
    solutions = [parsers.Attempt(text, "6") for text in (first, second, first)]
    kept = rules.accept_two_distinct_wrong(answered(*solutions), {"answer": "5"}, {}).value
    assert [answer.value.text for answer in kept] == [first, second]


def test_near_duplicates_are_found_by_minhash_and_compared_exactly() -> None:
    words = [f"w{number}" for number in range(40)]
    text = " ".join(words)
    one_changed = " ".join([*words[:-1], "other"])
    half = " ".join([*words[:20], *(f"v{number}" for number in range(20))])
    assert leakage.duplicates([("a", text), ("b", one_changed), ("c", half), ("d", text.upper())], 0.7) == ["b", "d"]
    index = leakage.NearDuplicateIndex([("a", text)], 0.7)
    nearest = index.nearest(one_changed)
    assert nearest and nearest[0] == "a" and nearest[1] == pytest.approx(35 / 37)
    assert index.nearest(half) is None and index.nearest("w0 w1") is None


def test_diversity_is_distinct_runs_and_self_bleu() -> None:
    same = quality.diversity(["one two three four five"] * 3)
    assert same["self_bleu"] == pytest.approx(100.0) and same["distinct_1"] == pytest.approx(5 / 15, abs=1e-4)
    apart = quality.diversity(["one two three four five", "six seven eight nine ten"])
    assert apart["distinct_2"] == 1.0 and apart["self_bleu"] < 10
    assert quality.diversity([]) == {"distinct_1": None, "distinct_2": None, "distinct_3": None, "self_bleu": None, "texts": 0}  # fmt: skip
    assert quality.evenness_of([1, 1, 1, 1, 1, 1]) == 1.0 and quality.evenness_of([6, 0, 0, 0, 0, 0]) == 0.0
    assert quality.evenness_of([0] * 6) is None
    assert quality.evenness_of([3, 3, 0, 0, 0, 0]) == pytest.approx(0.3869, abs=1e-4)


def test_the_hierarchy_has_eleven_domains_and_every_standard_once() -> None:
    domains = standards.domains()
    codes = [code for domain in domains for cluster in domain.clusters for code in cluster.standards]
    assert len(domains) == 11 and len(codes) == len(set(codes)) == 229
    assert {cluster.grade for domain in domains for cluster in domain.clusters} == {"K", *"12345678"}
    for domain in domains:
        for cluster in domain.clusters:
            assert cluster.code.split(".")[:2] == [cluster.grade, domain.code]
            assert all(code.startswith(f"{cluster.code}.") for code in cluster.standards)
    texts = [text for domain in domains for cluster in domain.clusters for text in cluster.standards.values()]
    assert len(set(texts)) == len(texts)


def test_seeds_are_problems_with_plain_answers_and_each_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [
        ("One and one?", 2), ("one and ONE", "2"), ("Half of one?", "1/2"), ("When?", "3:30"),
        ("Two and two?", "1,004.50"),
    ]  # fmt: skip
    rows += [(OPTIONED, "b"), ("Which one?", "B"), ("Which is it? A) red B) blue", "(A)")]
    path.write_text("".join(json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in rows))
    source = SeedSource(dataset="mine", loader="word_problems", form="jsonl", licence="CC0")
    from maieutic.curation.seeds import MakeSeeds

    make_seeds(job=MakeSeeds(curation="c", sources=[source], seed=1), sources=[path], out=tmp_path / "seeds.jsonl")
    seeds = read_records(tmp_path / "seeds.jsonl", Seed)
    assert [(seed.problem, seed.answer) for seed in seeds] == [
        ("One and one?", "2"), ("Half of one?", "0.5"), ("Two and two?", "1004.5"), (OPTIONED, "B"), ("Which is it? A) red B) blue", "A"),
    ]  # fmt: skip
    problem = r"^curations\.c\.seeds\.mine: expected problems with plain answers, found none \(no question or no answer"
    with pytest.raises(UserError, match=problem):
        seeds_of([item_of("x", "No answer?")], source, "curations.c.seeds.mine")


def test_a_split_is_random_and_reproducible(tmp_path: Path) -> None:
    seeds = [seed_of(f"s-{number}", number) for number in range(20)]
    tested = evaluation_seeds(seeds, 0.25, 3)
    assert len(tested) == 5 and tested == evaluation_seeds(list(reversed(seeds)), 0.25, 3)
    assert tested != evaluation_seeds(seeds, 0.25, 4) and tested < evaluation_seeds(seeds, 0.5, 3)
    assert evaluation_seeds(seeds, 0.0, 3) == set() and len(evaluation_seeds(seeds, 1.0, 3)) == 20
