"""Check a requirement of DataTables: each row of a table has as many cells as the head has columns."""

from __future__ import annotations

from lxml import html


def uneven(page: str) -> list[str]:
    """Return the rows of a page's sortable tables with too few or too many cells, or with a cell that spans several."""
    faults = []
    for table in html.fromstring(page).xpath('//table[contains(@class, "sortable")]'):
        heads = table.xpath("./thead/tr")
        columns = sum(int(cell.get("colspan", 1)) for cell in heads[-1].xpath("./th|./td"))
        for row in [*heads[:-1], *table.xpath("./tfoot/tr")]:
            if sum(int(cell.get("colspan", 1)) for cell in row.xpath("./th|./td")) != columns:
                faults.append(html.tostring(row, encoding="unicode")[:200])
        for row in table.xpath("./tbody/tr"):
            cells = row.xpath("./th|./td")
            if len(cells) != columns or any(cell.get("colspan") or cell.get("rowspan") for cell in cells):
                faults.append(html.tostring(row, encoding="unicode")[:200])
    return faults
