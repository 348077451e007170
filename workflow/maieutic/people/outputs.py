"""What annotators are given of a sample: a page that needs no server, a sheet, files for Label Studio and Potato."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from maieutic.core.errors import UserError
from maieutic.core.files import write_csv, write_json, write_lines, write_text
from maieutic.core.objects import json_value
from maieutic.core.visible import embedded, policy_source
from maieutic.judges.rubrics import Rubric
from maieutic.people.sample import Asked, Unit, asked, replies_shown, sections_of

HERE = Path(__file__).parent
SHEET = ["unit", "criterion", "title", "question", "look at", "answers", "answer"]
INSTANCES = ["unit", "context", "response 1", "response 2"]
SHOWN = "shown.json"
Words = dict[str, Any]


class Told(NamedTuple):
    """What all annotators of a sample are told."""

    sample: str
    version: str
    rubric: Rubric
    guideline: str
    pictures: Path

    @property
    def compared(self) -> bool:
        """Whether two responses are compared."""
        return self.rubric.rules.against_reference


def words_of(name: str, one: Asked) -> Words:
    """A criterion as the page asks it."""
    shown = {"1": "Response 1", "2": "Response 2", "tie": "No difference"}
    answers = [{"value": value, "shown": shown.get(value, value)} for value in one.answers]
    return {"name": name, "title": one.title, "question": one.question, "scoring": one.scoring, "answers": answers}


def picture(path: Path) -> str:
    """A picture as an address that holds it."""
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def shown_unit(unit: Unit, told: Told) -> Words:
    """A unit as the page shows it: nothing says whose reply it is."""
    return {
        "name": unit.name,
        "sections": sections_of(unit.candidate.item),
        "replies": replies_shown(unit, told.compared),
        "pictures": [picture(told.pictures / name) for name in unit.candidate.item.images],
        "criteria": [words_of(name, one) for name, one in asked(told.rubric, unit.candidate.criteria).items()],
    }


def shown_of(units: Sequence[Unit], told: Told) -> Words:
    """All that pages of a sample show."""
    return {
        "sample": told.sample,
        "version": told.version,
        "title": told.rubric.title,
        "guideline": told.guideline,
        "units": [shown_unit(unit, told) for unit in units],
    }


def page_of(annotator: str, units: Sequence[str], shown: Words) -> str:
    """One annotator's page: one file, which loads nothing and sends nothing. units: by name; shown: of the sample."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("label.css", "label.js"))
    policy = (
        f"default-src 'none'; style-src {policy_source(style)}; script-src {policy_source(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    by_name = {unit["name"]: unit for unit in shown["units"]}
    if missing := [name for name in units if name not in by_name]:
        raise UserError(SHOWN, f"has no unit {missing[0]}", "leave the sample's folder as it was drawn")
    data = {**shown, "annotator": annotator, "units": [by_name[name] for name in units]}
    environment = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True)
    return environment.get_template("label.html.jinja").render(
        annotator=annotator, title=shown["title"], policy=policy, style=style, script=script, data=embedded(data)
    )


def context_of(unit: Unit) -> str:
    """What stands before a reply, as one text."""
    parts = []
    for section in sections_of(unit.candidate.item):
        turns = "\n".join(f"{turn['who']}: {turn['text'].strip()}" for turn in section.get("turns", ()))
        parts.append(f"{section['title']}\n{section.get('text', turns)}")
    return "\n\n".join(parts)


def write_sheets(folder: Path, sheets: Mapping[str, Sequence[Unit]], units: Sequence[Unit], told: Told) -> None:
    """Instances for all, and a sheet an annotator: a row for each unit and criterion, `answer` left open."""
    rows = ([unit.name, context_of(unit), *[*replies_shown(unit, told.compared), ""][:2]] for unit in units)
    write_csv(folder / "instances.csv", INSTANCES, rows)
    for annotator, own in sheets.items():
        questions = (
            [unit.name, name, one.title, one.question, one.scoring, " | ".join(one.answers), ""]
            for unit in own
            for name, one in asked(told.rubric, unit.candidate.criteria).items()
        )
        write_csv(folder / f"sheet-{annotator}.csv", SHEET, questions)


def question_of(one: Asked) -> str:
    """What is asked under a criterion, as one text."""
    return "\n".join(filter(None, [f"{one.title}: {one.question}", one.scoring]))


def label_studio_form(told: Told, units: Sequence[Unit]) -> str:
    """The labelling interface of Label Studio: texts, for each criterion a task's question, and choices."""
    view = ElementTree.Element("View")
    names = ["context", "response_1", *(["response_2"] if told.compared else [])]
    for name in names:
        ElementTree.SubElement(view, "Header", value=name.replace("_", " ").capitalize())
        ElementTree.SubElement(view, "Text", name=name, value=f"${name}")
    criteria = {name: one for unit in units for name, one in asked(told.rubric, unit.candidate.criteria).items()}
    for name, one in criteria.items():
        ElementTree.SubElement(view, "Text", name=f"question_{name}", value=f"$question_{name}")
        choices = ElementTree.SubElement(
            view, "Choices", name=name, toName="response_1", choice="single", showInline="true"
        )
        for value in one.answers:
            ElementTree.SubElement(choices, "Choice", value=value)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def write_label_studio(folder: Path, sheets: Mapping[str, Sequence[Unit]], told: Told) -> None:
    """Tasks of each annotator and the labelling interface for Label Studio; what it exports as JSON is read back."""
    units = list({unit.name: unit for own in sheets.values() for unit in own}.values())
    every = {name for unit in units for name in unit.candidate.criteria}
    for annotator, own in sheets.items():
        tasks = []
        for unit in own:
            texts = {f"response_{place}": text for place, text in enumerate(replies_shown(unit, told.compared), 1)}
            questions = dict.fromkeys([f"question_{name}" for name in sorted(every)], "(does not apply)")
            for name, one in asked(told.rubric, unit.candidate.criteria).items():
                questions[f"question_{name}"] = question_of(one)
            about = {"unit": unit.name, "sample": told.sample, "version": told.version, "guideline": told.guideline}
            tasks.append({"data": {**about, "context": context_of(unit), **texts, **questions}})
        write_json(folder / f"label-studio/tasks-{annotator}.json", tasks)
    write_text(folder / "label-studio/interface.xml", label_studio_form(told, units))


def write_potato(folder: Path, units: Sequence[Unit], told: Told) -> None:
    """Data and configuration for Potato; a unit's text says what its criteria ask."""
    import yaml

    criteria = {name: one for unit in units for name, one in asked(told.rubric, unit.candidate.criteria).items()}
    schemes = [
        {
            "annotation_type": "radio",
            "name": name,
            "description": name.replace("_", " "),
            "labels": [{"name": value} for value in one.answers],
            "label_requirement": {"required": all(name in unit.candidate.criteria for unit in units)},
        }
        for name, one in criteria.items()
    ]
    settings = {
        "annotation_task_name": told.rubric.title,
        "data_files": ["data.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "output_annotation_dir": "annotations",
        "output_annotation_format": "jsonl",
        "annotation_schemes": schemes,
    }
    lines = []
    for unit in units:
        parts = [f"Response {place}\n{text}" for place, text in enumerate(replies_shown(unit, told.compared), 1)]
        parts += [f"{name}: {question_of(one)}" for name, one in asked(told.rubric, unit.candidate.criteria).items()]
        lines.append({"id": unit.name, "text": "\n\n".join([context_of(unit), *parts])})
    write_lines(folder / "potato/data.jsonl", lines)
    write_text(folder / "potato/config.yaml", yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def write_all(folder: Path, sheets: Mapping[str, Sequence[Unit]], units: Sequence[Unit], told: Told) -> None:
    """Everything that annotators may be given, and what further pages of the sample are made of."""
    shown = shown_of(units, told)
    write_json(folder / SHOWN, shown)
    for annotator, own in sheets.items():
        write_page(folder, annotator, [unit.name for unit in own], shown)
    write_sheets(folder, sheets, units, told)
    write_label_studio(folder, sheets, told)
    write_potato(folder, units, told)


def read_shown(folder: Path) -> Words:
    """All that pages of a sample show, as it was drawn. Raises UserError for a folder that lacks it."""
    try:
        content: Words = json_value((folder / SHOWN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())[:200]
        raise UserError(str(folder / SHOWN), f"cannot be read: {problem}", "name the folder that label wrote") from None
    return content


def write_page(folder: Path, annotator: str, units: Sequence[str], shown: Words | None = None) -> Path:
    """A page of some units of a sample, for one more annotator; its path. Raises UserError for a folder that lacks it.

    shown: all that pages of the sample show; None: as it was drawn.
    """
    content = shown or read_shown(folder)
    path = folder / f"page-{annotator}.html"
    write_text(path, page_of(annotator, units, content))
    return path
