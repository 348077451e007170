"""Writers of small workbooks for tests: .xlsx and .ods, as spreadsheet programs store them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

Rows = Sequence[Sequence[Any]]
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def xlsx_cell(value: Any, place: str, style: str = "") -> str:
    """Return a cell. A text that begins with `=` is a formula without a stored value; `#` begins an error."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"{style if isinstance(value, float) else ""}><v>{value!r}</v></c>'
    if str(value).startswith("="):
        return f'<c r="{place}"><f>{escape(str(value)[1:])}</f></c>'
    if str(value).startswith("#"):
        return f'<c r="{place}" t="e"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'


def write_xlsx(path: Path, sheets: Mapping[str, Rows], percent: bool = False) -> Path:
    """Write a workbook of Excel, and return its path. percent: show fractions as percentages."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        kinds = "".join(
            f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="application/vnd.openxmlformats-'
            'officedocument.spreadsheetml.worksheet+xml"/>'
            for number in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-'
            'package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/'
            'workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
            f"{kinds}</Types>",
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{OFFICE}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        names = "".join(
            f'<sheet name="{escape(name)}" sheetId="{number}" r:id="r{number}"/>'
            for number, name in enumerate(sheets, 1)
        )
        archive.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{names}</sheets></workbook>'
        )
        links = "".join(
            f'<Relationship Id="r{number}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
            for number in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'
        )
        formats = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="9"/></cellXfs>'
        archive.writestr("xl/styles.xml", f'<styleSheet xmlns="{MAIN}">{formats}</styleSheet>')
        for number, rows in enumerate(sheets.values(), 1):
            lines = "".join(
                f'<row r="{line}">'
                + "".join(
                    xlsx_cell(value, f"{chr(65 + column)}{line}", ' s="1"' if percent else "")
                    for column, value in enumerate(row)
                )
                + "</row>"
                for line, row in enumerate(rows, 1)
            )
            archive.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>',
            )
    return path


def write_ods(path: Path, sheets: Mapping[str, Rows]) -> Path:
    """Write an OpenDocument spreadsheet, and return its path."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )

    def cell(value: Any) -> str:
        if isinstance(value, int | float):
            return f'<table:table-cell office:value-type="float" office:value="{value}"><text:p>{value}</text:p></table:table-cell>'
        return f'<table:table-cell office:value-type="string"><text:p>{escape(str(value))}</text:p></table:table-cell>'

    tables = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr(
            "META-INF/manifest.xml",
            '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
        )
        archive.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
            "</office:document-content>",
        )
    return path
