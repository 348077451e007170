// Tables that are sorted and filtered: DataTables takes them as they stand in the page, which reads without it too.
const grids = new Map();

// What a cell is sorted by: `data-value` or its text; `data-last` puts it after the others in either direction.
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

// A table that it cannot take stays as it stands.
DataTable.ext.errMode = (settings, number, message) => console.error(message);

// The grid of a table, made when its page is shown first: a page of a hundred tutors has sixty tables.
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
