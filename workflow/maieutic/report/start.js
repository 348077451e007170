// What the page does when it is opened: buttons, the leaderboard's choices, the first address.
for (const header of document.querySelectorAll(".sortable th[aria-sort]")) header.querySelector("button").addEventListener("click", () => sortBy(header));
for (const button of document.querySelectorAll(".toggle button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".toggle button")) other.setAttribute("aria-pressed", String(other === button));
    for (const table of document.querySelectorAll("table.board")) table.hidden = table.dataset.scoring !== button.dataset.scoring;
  });
}

// The leaderboard: rows by group, tables by benchmark, columns by skill.
function columnsOf(table) {
  const [skills, heads] = table.tHead.rows;
  const names = [...skills.cells].slice(1).flatMap((head) => Array(head.colSpan).fill(head.textContent));
  return [...heads.cells].slice(1).map((head, at) => ({ at: at + 1, skill: names[at] }));
}

function filterBoards(controls) {
  const { group, benchmark, skill, dense, baselines } = controls;
  for (const part of document.querySelectorAll(".board-of")) {
    part.hidden = Boolean(benchmark.value) && part.dataset.benchmark !== benchmark.value;
    for (const table of part.querySelectorAll("table.board")) {
      const hidden = new Set(columnsOf(table).filter((column) => skill.value && column.skill !== skill.value).map((column) => column.at));
      for (const head of table.tHead.rows[0].cells) if (head.className === "skill") head.hidden = Boolean(skill.value) && head.textContent !== skill.value;
      for (const row of [...table.rows].slice(1)) [...row.cells].forEach((one, at) => { one.hidden = hidden.has(at); });
      for (const row of table.tBodies[0].rows) row.hidden = (Boolean(group.value) && row.dataset.group !== group.value) || (!baselines.checked && row.classList.contains("baseline"));
      if (hidden.size === columnsOf(table).length) part.hidden = true;
    }
  }
  document.body.classList.toggle("dense", dense.checked);
}

const filters = document.getElementById("board-filters");
if (filters) {
  const texts = (selector, read) => [...new Set([...document.querySelectorAll(selector)].map(read))].filter(Boolean);
  const every = (names) => [["", "all"], ...names.map((name) => [name, data.names[name] ?? name])];
  const box = (checked) => Object.assign(make("input", { type: "checkbox" }), { checked });
  const controls = {
    group: choice(every(texts("table.board tbody tr", (row) => row.dataset.group)), ""),
    benchmark: choice(every(texts(".board-of", (one) => one.dataset.benchmark)), ""),
    skill: choice(every(texts("table.board th.skill", (head) => head.textContent)), ""),
    baselines: box(true),
    dense: box([...document.querySelectorAll("table.board")].some((table) => table.tBodies[0].rows.length > 14)),
  };
  const names = { group: "Group", benchmark: "Benchmark", skill: "Skill", baselines: "Baselines", dense: "Dense" };
  for (const [name, control] of Object.entries(controls)) {
    control.addEventListener("input", () => filterBoards(controls));
    filters.append(make("label", {}, names[name] + " ", control));
  }
  filterBoards(controls);
}
for (const buttons of document.querySelectorAll(".board-of .buttons")) {
  const part = buttons.closest(".board-of");
  const table = () => part.querySelector("table.board:not([hidden])");
  for (const [text, kind, of] of [["CSV", "csv", csvOf], ["LaTeX", "tex", latexOf]]) {
    const button = make("button", { class: "more" }, text);
    button.addEventListener("click", () => save(`${part.dataset.benchmark}-${table().dataset.scoring}.${kind}`, of(table()), "text/plain"));
    buttons.append(button, " ");
  }
}
// What a keyboard or a screen reader needs: tables that scroll can be reached, pictures say what they show.
for (const place of document.querySelectorAll(".scroll")) place.tabIndex = 0;
for (const picture of document.querySelectorAll("svg[role=img]")) {
  const headings = [...(picture.closest("section") ?? document).querySelectorAll("h2, h3, summary")];
  const above = headings.filter((one) => one.compareDocumentPosition(picture) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
  picture.setAttribute("aria-label", (picture.closest("figure")?.querySelector("figcaption") ?? above)?.textContent ?? "figure");
}
// Every picture of the page as a file.
for (const figure of document.querySelectorAll("figure[data-file]")) {
  const button = make("button", { class: "more" }, "SVG");
  button.addEventListener("click", () => save(figure.dataset.file + ".svg", new XMLSerializer().serializeToString(figure.querySelector("svg")), "image/svg+xml"));
  const png = make("button", { class: "more" }, "PNG");
  png.addEventListener("click", () => savePng(figure));
  figure.append(make("p", { class: "buttons" }, button, " ", png));
}

function savePng(figure) {
  const svg = figure.querySelector("svg");
  const picture = new Image();
  picture.addEventListener("load", () => {
    const { width, height } = svg.viewBox.baseVal;
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, 2 * width, 2 * height);
    make("a", { href: canvas.toDataURL("image/png"), download: figure.dataset.file + ".png" }).click();
  });
  picture.src = "data:image/svg+xml;base64," + btoa(unescape(encodeURIComponent(new XMLSerializer().serializeToString(svg))));
}

document.getElementById("jump").addEventListener("change", (event) => { if (event.target.value) location.hash = event.target.value; });
addEventListener("hashchange", show);
show();
