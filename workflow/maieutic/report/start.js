// Initialise the page: buttons, the leaderboard's filters, the first address.
for (const button of document.querySelectorAll(".toggle button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".toggle button")) other.setAttribute("aria-pressed", String(other === button));
    for (const table of document.querySelectorAll("table.board")) table.hidden = table.dataset.scoring !== button.dataset.scoring;
  });
}

// Filters of the ranked table: rows by group, columns by benchmark and skill.
const headsOf = (table) => [...table.tHead.rows[1].cells];
const columnsOf = new Map(); // benchmark and skill of each column, by table

function filterBoards(controls) {
  for (const table of document.querySelectorAll("table.board")) {
    if (!columnsOf.has(table)) columnsOf.set(table, headsOf(table).map(({ dataset }) => ({ ...dataset })));
    const grid = gridOf(table);
    const chosen = (column) => ["benchmark", "skill", "task"].every((key) => !controls[key]?.value || column[key] === controls[key].value);
    columnsOf.get(table).forEach((column, at) => { if (column.benchmark) grid.column(at).visible(chosen(column), false); });
    grid.search.fixed("chosen", (text, cells, index) => !controls.group?.value || grid.row(index).node().dataset.group === controls.group.value).draw();
    const cells = [...table.querySelectorAll("button.cell")];
    if (cells.length && cells.every((cell) => cell.tabIndex < 0)) cells[0].tabIndex = 0;
  }
}

const filters = document.getElementById("board-filters");
if (filters) {
  const texts = (selector, read) => [...new Set([...document.querySelectorAll(selector)].map(read))].filter(Boolean);
  const every = (names) => [["", "all"], ...names.map((name) => [name, data.names[name] ?? name])];
  const values = {
    group: texts("table.board tbody tr", (row) => row.dataset.group),
    benchmark: texts("table.board th[data-skill]", (head) => head.dataset.benchmark),
    skill: texts("table.board th[data-skill]", (head) => head.dataset.skill),
  };
  const names = { group: "Group", benchmark: "Benchmark", skill: "Skill", task: "Task" };
  const controls = {};
  const phone = matchMedia("(max-width: 700px)").matches; // there, the table shows one task at a time
  if (phone) values.task = texts("table.board th[data-skill]", (head) => head.dataset.task);
  for (const [name, found] of Object.entries(values)) {
    if (found.length < 2) continue;
    controls[name] = choice(every(found), name === "task" ? found[0] : "");
    controls[name].addEventListener("input", () => filterBoards(controls));
    filters.append(make("label", {}, names[name] + " ", controls[name]));
  }
  filterBoards(controls);
}
for (const buttons of document.querySelectorAll(".board-of .buttons")) {
  const part = buttons.closest(".board-of");
  const offer = (text, kind, act) => {
    const button = make("button", { class: "more" }, text);
    button.addEventListener("click", () => {
      const table = part.querySelector("table.board:not([hidden])");
      act(table, `ranking-${table.dataset.scoring}.${kind}`);
    });
    buttons.append(button, " ");
  };
  offer("CSV", "csv", (table, name) => save(name, numbersOf(table), "text/csv"));
  offer("LaTeX", "tex", (table, name) => save(name, latexOf(table, document.querySelector(".finding").textContent), "text/plain"));
  offer("Copy", "csv", (table) => copyText(cellsOf(table).map((row) => row.join("\t")).join("\n")));
  offer("SVG", "svg", (table, name) => save(name, textOf(pictureOf(table)), "image/svg+xml"));
  offer("PNG", "png", (table, name) => savePng(pictureOf(table), name));
}
// The details of a value are beside it, also while the pointer is over the value.
function placeTip(tip, cell) {
  const [box, place] = [tip.getBoundingClientRect(), cell.getBoundingClientRect()];
  tip.style.left = Math.max(8, Math.min(place.right - box.width, innerWidth - box.width - 8)) + "px";
  tip.style.top = (place.bottom + box.height + 8 < innerHeight ? place.bottom + 4 : Math.max(8, place.top - box.height - 4)) + "px";
}
document.addEventListener("toggle", ({ target, newState }) => {
  if (newState === "open" && target.classList?.contains("tip")) placeTip(target, target.parentElement.querySelector(".cell"));
}, true);
for (const board of document.querySelectorAll(".board-of")) {
  const tipAt = (event) => event.target.closest?.(".cell")?.popoverTargetElement;
  board.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") tipAt(event)?.showPopover(); });
  board.addEventListener("pointerout", (event) => {
    const tip = tipAt(event);
    if (event.pointerType === "mouse" && tip && !event.target.closest(".cell").contains(event.relatedTarget)) tip.hidePopover();
  });
}

// The values of a table are one stop of the tab key; the arrow keys move between them.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
for (const table of document.querySelectorAll("table.board")) {
  [...table.querySelectorAll("button.cell")].forEach((button, at) => { button.tabIndex = at ? -1 : 0; });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("button.cell")?.parentElement;
    const step = STEPS[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const rows = [...table.tBodies[0].rows];
    let [down, across] = [rows.indexOf(cell.parentElement), cell.cellIndex];
    for (;;) {
      [down, across] = [down + step[0], across + step[1]];
      const other = rows[down]?.cells[across];
      if (!other) return;
      const next = other.querySelector("button.cell");
      if (!next) continue; // a cell without a value
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      return next.focus();
    }
  });
}

// A table that is wider than its place has a shadow at its right edge until it is scrolled to its end.
const scrolled = [...document.querySelectorAll(".scroll")];
const markWide = (place) => place.classList.toggle("goes-on", place.scrollLeft + place.clientWidth < place.scrollWidth - 4);
const markShown = () => { for (const place of scrolled) if (place.offsetParent) markWide(place); };
for (const place of scrolled) {
  place.tabIndex = 0; // a keyboard can scroll it
  place.addEventListener("scroll", () => markWide(place), { passive: true });
}
addEventListener("resize", markShown);
addEventListener("hashchange", () => setTimeout(markShown));
setTimeout(markShown);

// On a page with `data-folded`, the parts below its first table are folded, each under its heading. They print open.
for (const page of document.querySelectorAll("section[data-folded]")) {
  for (const heading of page.querySelectorAll(":scope > h3")) {
    const fold = make("details", { class: "fold" }, make("summary", {}, ...heading.childNodes));
    while (heading.nextElementSibling && !heading.nextElementSibling.matches("h3, p.exports, details.fold")) fold.append(heading.nextElementSibling);
    heading.replaceWith(fold);
  }
}
for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => { for (const fold of document.querySelectorAll("details.fold")) fold.open = open; });
}

// For screen readers: pictures have a label.
for (const picture of document.querySelectorAll("svg[role=img]")) {
  const headings = [...(picture.closest("section") ?? document).querySelectorAll("h2, h3, summary")];
  const above = headings.filter((heading) => heading.compareDocumentPosition(picture) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
  picture.setAttribute("aria-label", (picture.closest("figure")?.querySelector("figcaption") ?? above)?.textContent ?? "figure");
}
// Buttons that save each picture of the page as a file.
for (const figure of document.querySelectorAll("figure[data-file]")) {
  const picture = figure.querySelector("svg");
  const button = make("button", { class: "more" }, "SVG");
  button.addEventListener("click", () => save(figure.dataset.file + ".svg", textOf(picture), "image/svg+xml"));
  const png = make("button", { class: "more" }, "PNG");
  png.addEventListener("click", () => savePng(picture, figure.dataset.file + ".png"));
  figure.append(make("p", { class: "buttons" }, button, " ", png));
}

document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); document.querySelector("main").focus(); });
document.getElementById("jump").addEventListener("change", (event) => { if (event.target.value) location.hash = event.target.value; });
addEventListener("hashchange", show);
show();
