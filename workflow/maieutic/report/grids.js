// Sorting and filtering of tables. DataTables extends the tables of the page, which can also be read without it.
const grids = new Map();

// Sort key of a cell: `data-value` or the cell's text. Cells with `data-last` come last in either direction.
DataTable.ext.order.cell = function (settings, column) {
  const cells = this.api().column(column, { order: "index" }).nodes().toArray();
  return cells.map((cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    return { value: text === "" || isNaN(text) ? text : Number(text), rank: text === "" ? 2 : Number(cell.hasAttribute("data-last")) };
  });
};

function inOrder(a, b, sign) {
  if (a.rank !== b.rank) return a.rank - b.rank;
  const [x, y] = [a.value, b.value];
  return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
}
DataTable.type("cell", "order", { asc: (a, b) => inOrder(a, b, 1), desc: (a, b) => inOrder(a, b, -1) });

// A table that DataTables cannot handle stays unchanged.
DataTable.ext.errMode = (settings, number, message) => console.error(message);

// Creates the grid of a table when its page is first shown, because a report on a hundred tutors has sixty tables.
function gridOf(table) {
  if (!grids.has(table)) {
    const heads = [...table.tHead.rows].at(-1).cells;
    for (const link of table.tHead.querySelectorAll("a")) {
      for (const kind of ["click", "keypress"]) link.addEventListener(kind, (event) => event.stopPropagation());
    }
    grids.set(table, new DataTable(table, {
      autoWidth: false,
      columns: [...heads].map((head) => ({ orderable: head.hasAttribute("aria-sort"), orderDataType: "cell", type: "cell", orderSequence: ["desc", "asc"] })),
      layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null },
      order: [],
      paging: false,
    }));
  }
  return grids.get(table);
}
