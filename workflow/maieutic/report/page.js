"use strict";
// Texts written by models enter the page through textContent only, so that they cannot become markup.
const data = JSON.parse(document.getElementById("data").textContent);
// These objects are looked up by names of tutors, groups and tasks, so they must not inherit keys like `constructor`.
for (const names of [data.labels, data.titles, data.names, data.tasks, data.beside, data.desired, ...Object.values(data.desired), data.graders]) if (names) Object.setPrototypeOf(names, null);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function choice(options, value) {
  const select = make("select", {}, ...options.map(([name, text]) => make("option", { value: name }, text)));
  select.value = value;
  return select;
}

// Loads a file beside the page. The file is a script, because a page opened from disk can load nothing else.
function beside(file) {
  return new Promise((done, failed) => {
    const script = make("script", { src: file });
    script.addEventListener("load", done);
    script.addEventListener("error", failed);
    document.head.append(script);
  });
}

function save(name, text, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Copies a text, also where the browser offers no clipboard to scripts.
function copyText(text) {
  const area = make("textarea", {}, text);
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// Returns the texts of a table's visible cells, row by row.
function cellsOf(table) {
  // A value's interval is in its details, which are hidden.
  const intervalOf = (cell) => [...cell.querySelectorAll(".tip .ci")].slice(0, 1).map((part) => " " + part.textContent).join("");
  const text = (cell) => (cell.innerText + intervalOf(cell)).replace(/\s+/g, " ").replace(/[↕↑↓▸]/g, "").trim();
  const spread = (row) => [...row.cells].filter((cell) => !cell.hidden).flatMap((cell) => [text(cell), ...Array(cell.colSpan - 1).fill("")]);
  return [...table.rows].filter((row) => row.offsetParent !== null && !row.querySelector(".dt-empty")).map(spread);
}

// Texts that a spreadsheet interprets as formulas, as in core/files.py. Numbers with a sign or an interval are allowed.
const FORMULA = /^[\s\x00-\x20\u00ad\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r]/;
const NUMBER = /^[-+]?\d[\d\s.,%[\]\u2013-]*(?:to [-+]?[\d.]+)?$/;

function csvLine(row) {
  const safe = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? "'" + text : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return row.map((text) => quoted(safe(text))).join(",") + "\n";
}

function csvOf(table) {
  return cellsOf(table).map(csvLine).join("");
}

// Returns a ranked table's visible rows as numbers: one line for each tutor and task, with interval and n.
function numbersOf(table) {
  const heads = [...table.tHead.rows].at(-1).cells;
  const shown = [...table.tBodies[0].rows].filter((row) => row.offsetParent !== null);
  const lines = shown.flatMap((row) => [...row.cells].flatMap((cell, at) => {
    const { value, low, high, n } = cell.dataset;
    if (n === undefined) return [];
    const [rank, tutor] = [row.querySelector("td.rank").textContent, row.querySelector("th.name").firstChild.data.trim()];
    return [[rank, tutor, row.dataset.group, heads[at].dataset.benchmark, heads[at].querySelector("button").textContent, value, low, high, n, heads[at].dataset.leads]];
  }));
  return [["rank", "tutor", "group", "benchmark", "task", "value", "low", "high", "n", "leads"], ...lines].map(csvLine).join("");
}

const LATEX = {
  "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}",
  "–": "--", "−": "$-$", "≤": "$\\leq$", "≥": "$\\geq$", "×": "$\\times$", "…": "\\dots{}",
};

// Returns a ranked table's visible rows as a table for LaTeX with the package booktabs. The leaders of a task are bold.
function latexOf(table, caption) {
  const escaped = (text) => text.replace(/[\u21b5\u2400-\u2426]/g, "").replace(/[\\~^<>|–−≤≥×…]|[&%$#_{}]/g, (sign) => LATEX[sign] ?? "\\" + sign).replace(/\s+/g, " ").trim();
  const textOf = (cell) => {
    const value = cell.querySelector(".value");
    const text = escaped((value ?? cell.querySelector("button") ?? cell.firstChild ?? cell).textContent);
    return value?.classList.contains("best") ? `\\textbf{${text}}` : text;
  };
  // After the line break \\, LaTeX would parse a bracket as an option of \\, and an asterisk as the starred form \\*.
  const line = (cells) => cells.map(textOf).join(" & ").replace(/^[[*]/, "{$&}") + " \\\\";
  const shown = (part) => [...part.rows].filter((row) => row.offsetParent !== null && !row.querySelector(".dt-empty")).map((row) => line([...row.cells]));
  const spans = [...table.tHead.rows[0].cells].map((cell) => (cell.colSpan > 1 ? `\\multicolumn{${cell.colSpan}}{c}{${escaped(cell.textContent)}}` : escaped(cell.textContent)));
  const width = table.tHead.rows[1].cells.length;
  return [
    "\\begin{table}", "\\centering", `\\caption{${escaped(caption)}}`, `\\begin{tabular}{rl${"r".repeat(width - 2)}}`, "\\toprule",
    spans.join(" & ") + " \\\\", line([...table.tHead.rows[1].cells]), "\\midrule", ...shown(table.tBodies[0]),
    ...(table.tFoot?.rows.length ? ["\\midrule", ...shown(table.tFoot)] : []), "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
  ].join("\n");
}

function address() {
  const [path, query] = (location.hash || document.body.dataset.start || "#/").split("?");
  return [path, Object.fromEntries(new URLSearchParams(query || ""))];
}

function show() {
  const [path, parameters] = address();
  const sections = [...document.querySelectorAll("section[data-page]")];
  const current = sections.find((section) => section.dataset.page === path) || sections[0];
  for (const section of sections) section.hidden = section !== current;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === current.dataset.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const jump = document.getElementById("jump");
  jump.value = [...jump.options].some((option) => option.value === current.dataset.page) ? current.dataset.page : "";
  for (const place of current.querySelectorAll(".browser")) {
    if (!place.firstChild || parameters.task) browse(place, parameters.task ?? place.dataset.task, parameters);
  }
  for (const place of current.querySelectorAll("#versus")) versus(place, parameters);
  for (const table of current.querySelectorAll("table.sortable")) gridOf(table);
  scrollTo(0, 0);
}
