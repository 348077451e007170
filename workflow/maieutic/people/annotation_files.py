"""Files of a sample for annotators: pages that need no server, CSV sheets, and files for Label Studio."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from maieutic.config.rubrics import Rubric
from maieutic.core.errors import UserError
from maieutic.core.files import write_csv, write_json, write_text
from maieutic.core.json_text import json_value
from maieutic.core.visible import policy_hash, script_safe_json
from maieutic.people.sample import CriterionQuestion, Unit, context_sections, criterion_questions, replies_to_show

HERE = Path(__file__).parent
ANNOTATOR_SHEET_COLUMNS = ["unit", "criterion", "title", "question", "look at", "answers", "answer"]
INSTANCE_COLUMNS = ["unit", "context", "response 1", "response 2"]
CONTENT_FILE = "shown.json"
PageContent = dict[str, Any]


class SampleBrief(NamedTuple):
    """Content of a sample that all of its annotators see.

    version: digest of the texts, as in `Key.version`; pictures: folder of the items' pictures.
    """

    sample: str
    version: str
    rubric: Rubric
    guideline: str
    pictures: Path

    @property
    def compared(self) -> bool:
        """True if each unit compares two responses."""
        return self.rubric.rules.against_reference


def criterion_content(name: str, question: CriterionQuestion) -> PageContent:
    """Return a criterion in the form that the labelling page's script reads."""
    titles = {"1": "Response 1", "2": "Response 2", "tie": "No difference"}
    answers = [{"value": value, "shown": titles.get(value, value)} for value in question.answers]
    return {
        "name": name,
        "title": question.title,
        "question": question.question,
        "scoring": question.scoring,
        "answers": answers,
    }


def picture_url(path: Path) -> str:
    """Return a picture as a data URL."""
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def unit_content(unit: Unit, brief: SampleBrief) -> PageContent:
    """Return a unit in the form that the labelling page's script reads, without the tutor's name."""
    return {
        "name": unit.name,
        "sections": context_sections(unit.candidate.item, unit.candidate.reference),
        "replies": replies_to_show(unit, brief.compared),
        "pictures": [picture_url(brief.pictures / name) for name in unit.candidate.item.images],
        "criteria": [
            criterion_content(name, question)
            for name, question in criterion_questions(brief.rubric, unit.candidate.criteria).items()
        ],
    }


def sample_content(
    units: Sequence[Unit], brief: SampleBrief, school: Mapping[str, object] | None = None
) -> PageContent:
    """Return the content of all pages of a sample. school: what the pages show of its school."""
    return {
        **({"school": school} if school else {}),
        "sample": brief.sample,
        "version": brief.version,
        "title": brief.rubric.title,
        "guideline": brief.guideline,
        "units": [unit_content(unit, brief) for unit in units],
    }


def label_page(annotator: str, units: Sequence[str], content: PageContent) -> str:
    """Return one annotator's page: a single HTML file that loads nothing and sends nothing.

    units: names of the annotator's units. content: content of all pages of the sample.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("label.css", "label.js"))
    policy = (
        f"default-src 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    by_name = {unit["name"]: unit for unit in content["units"]}
    if missing := [name for name in units if name not in by_name]:
        raise UserError(
            CONTENT_FILE,
            f"the sample has no unit {missing[0]}",
            "restore the sample's folder as `maieutic label` wrote it",
        )
    data = {**content, "annotator": annotator, "units": [by_name[name] for name in units]}
    if not {*data.get("school", {}).get("quiz", ())} <= {*units}:
        del data["school"]  # the page of a person who decides where annotators differ
    environment = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True)
    return environment.get_template("label.html.jinja").render(
        annotator=annotator,
        title=content["title"],
        policy=policy,
        style=style,
        script=script,
        data=script_safe_json(data),
    )


def context_text(unit: Unit) -> str:
    """Return the context of a reply as one text."""
    parts = []
    for section in context_sections(unit.candidate.item, unit.candidate.reference):
        turns = "\n".join(f"{turn['who']}: {turn['text'].strip()}" for turn in section.get("turns", ()))
        parts.append(f"{section['title']}\n{section.get('text', turns)}")
    return "\n\n".join(parts)


def write_sheets(folder: Path, sheets: Mapping[str, Sequence[Unit]], units: Sequence[Unit], brief: SampleBrief) -> None:
    """Write a CSV with all units, and a sheet for each annotator: one row per unit and criterion, `answer` empty."""
    rows = ([unit.name, context_text(unit), *[*replies_to_show(unit, brief.compared), ""][:2]] for unit in units)
    write_csv(folder / "instances.csv", INSTANCE_COLUMNS, rows)
    for annotator, sheet in sheets.items():
        questions = (
            [
                unit.name,
                name,
                question.title,
                question.question,
                question.scoring,
                " | ".join(question.answers),
                "",
            ]
            for unit in sheet
            for name, question in criterion_questions(brief.rubric, unit.candidate.criteria).items()
        )
        write_csv(folder / f"sheet-{annotator}.csv", ANNOTATOR_SHEET_COLUMNS, questions)


def question_text(question: CriterionQuestion) -> str:
    """Return the question of a criterion as one text."""
    return "\n".join(filter(None, [f"{question.title}: {question.question}", question.scoring]))


def label_studio_form(brief: SampleBrief, units: Sequence[Unit]) -> str:
    """Return Label Studio's labelling interface as XML: the texts, and the question and choices of each criterion."""
    view = ElementTree.Element("View")
    names = ["context", "response_1", *(["response_2"] if brief.compared else [])]
    for name in names:
        ElementTree.SubElement(view, "Header", value=name.replace("_", " ").capitalize())
        ElementTree.SubElement(view, "Text", name=name, value=f"${name}")
    criteria = {
        name: question
        for unit in units
        for name, question in criterion_questions(brief.rubric, unit.candidate.criteria).items()
    }
    for name, question in criteria.items():
        ElementTree.SubElement(view, "Text", name=f"question_{name}", value=f"$question_{name}")
        choices = ElementTree.SubElement(
            view, "Choices", name=name, toName="response_1", choice="single", showInline="true"
        )
        for value in question.answers:
            ElementTree.SubElement(choices, "Choice", value=value)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def write_label_studio(folder: Path, sheets: Mapping[str, Sequence[Unit]], brief: SampleBrief) -> None:
    """Write a labelling interface and each annotator's tasks for Label Studio, whose JSON exports can be read back."""
    units = list({unit.name: unit for sheet in sheets.values() for unit in sheet}.values())
    every = {name for unit in units for name in unit.candidate.criteria}
    for annotator, sheet in sheets.items():
        tasks = []
        for unit in sheet:
            texts = {f"response_{place}": text for place, text in enumerate(replies_to_show(unit, brief.compared), 1)}
            questions = dict.fromkeys([f"question_{name}" for name in sorted(every)], "(does not apply)")
            for name, question in criterion_questions(brief.rubric, unit.candidate.criteria).items():
                questions[f"question_{name}"] = question_text(question)
            about = {"unit": unit.name, "sample": brief.sample, "version": brief.version, "guideline": brief.guideline}
            tasks.append({"data": {**about, "context": context_text(unit), **texts, **questions}})
        write_json(folder / f"label-studio/tasks-{annotator}.json", tasks)
    write_text(folder / "label-studio/interface.xml", label_studio_form(brief, units))


def write_annotation_files(
    folder: Path,
    sheets: Mapping[str, Sequence[Unit]],
    units: Sequence[Unit],
    brief: SampleBrief,
    school: Mapping[str, object] | None = None,
) -> None:
    """Write all of a sample's files for annotators, and the content from which more pages can be built later.

    A sample with a school has only pages, since other tools cannot show the training and the quiz.
    """
    content = sample_content(units, brief, school)
    write_json(folder / CONTENT_FILE, content)
    for annotator, sheet in sheets.items():
        write_label_page(folder, annotator, [unit.name for unit in sheet], content)
    if school is None:
        write_sheets(folder, sheets, units, brief)
        write_label_studio(folder, sheets, brief)


def read_sample_content(folder: Path) -> PageContent:
    """Return the content of all pages of a sample. Raises UserError if the folder does not contain it."""
    try:
        content: PageContent = json_value((folder / CONTENT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())[:200]
        raise UserError(
            str(folder / CONTENT_FILE), f"cannot be read: {problem}", "pass the folder that `maieutic label` wrote"
        ) from None
    return content


def write_label_page(folder: Path, annotator: str, units: Sequence[str], content: PageContent | None = None) -> Path:
    """Write one annotator's page and return its path. Raises UserError if the folder does not contain a sample.

    units: names of the page's units. content: content of all pages, read from the folder if None.
    """
    content = content or read_sample_content(folder)
    path = folder / f"page-{annotator}.html"
    write_text(path, label_page(annotator, units, content))
    return path
