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

function csvOf(table) {
  const safe = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? "'" + text : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return cellsOf(table).map((row) => row.map((text) => quoted(safe(text))).join(",") + "\n").join("");
}

const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "≤": "$\\leq$" };

function latexOf(table) {
  const escaped = (text) => text.replace(/[\\~^–≤]|[&%$#_{}]/g, (sign) => LATEX[sign] ?? "\\" + sign);
  // After the line break \\, LaTeX would parse a bracket as an option of \\, and an asterisk as the starred form \\*.
  const rows = cellsOf(table).map((row) => row.map(escaped)).map(([first, ...rest]) => [first.replace(/^[[*]/, "{$&}"), ...rest]);
  const width = Math.max(...rows.map((row) => row.length));
  const heads = table.tHead.rows.length;
  const lines = rows.map((row) => [...row, ...Array(width - row.length).fill("")].join(" & ") + " \\\\");
  return ["\\begin{tabular}{l" + "r".repeat(width - 1) + "}", "\\toprule", ...lines.slice(0, heads), "\\midrule", ...lines.slice(heads), "\\bottomrule", "\\end{tabular}", ""].join("\n");
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
