"use strict";
// Text of models enters the page by textContent only, so that none of it can become markup.
const data = JSON.parse(document.getElementById("data").textContent);
const PAGE = 50;
const loading = {};
const WORDS = { right: "right", wrong: "wrong", none: "no answer", value: "" };

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Files beside the page call this with a task's items.
function items(task, chunk) {
  data.tasks[task] = chunk.items;
  Object.assign(data.prompts, chunk.prompts);
}

function loaded(task) {
  if (data.tasks[task]) return Promise.resolve();
  loading[task] ??= new Promise((done, failed) => {
    const script = make("script", { src: data.beside[task] });
    script.addEventListener("load", () => (data.tasks[task] ? done() : failed()));
    script.addEventListener("error", failed);
    document.head.append(script);
  });
  return loading[task];
}

function show() {
  const wanted = location.hash || "#/";
  const sections = [...document.querySelectorAll("section[data-page]")];
  const current = sections.find((section) => section.dataset.page === wanted) || sections[0];
  for (const section of sections) section.hidden = section !== current;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === current.dataset.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("jump").value = current.dataset.page.startsWith("#/task/") ? current.dataset.page : "";
  for (const place of current.querySelectorAll(".browser")) if (!place.firstChild) browse(place, place.dataset.task);
  scrollTo(0, 0);
}

function cellValue(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text === "" || isNaN(text) ? text : Number(text);
}

function sortBy(header) {
  const table = header.closest("table");
  const column = [...header.parentNode.cells].indexOf(header);
  const down = header.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  const last = (row) => (row.cells[column].hasAttribute("data-last") ? 1 : 0);
  rows.sort((a, b) => {
    const [x, y] = [cellValue(a, column), cellValue(b, column)];
    if (x === "" || y === "") return (x === "") - (y === "");
    if (last(a) !== last(b)) return last(a) - last(b);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

function outcomeOf(reply) {
  const grade = reply.grades.find((one) => one.by.includes("/robust")) || reply.grades[0];
  return grade ? grade.outcome : "none";
}

function rowsOf(task) {
  const tasks = task ? [task] : Object.keys(data.tasks);
  return tasks.flatMap((name) =>
    data.tasks[name].flatMap((item) => item.replies.map((reply) => ({ task: name, item, reply, outcome: outcomeOf(reply) })))
  );
}

function entry(row, withTask) {
  const { item, reply } = row;
  const headline = make("summary", {},
    make("span", { class: "mark-" + row.outcome }, row.outcome === "value" ? String(reply.grades.find((g) => g.by.includes("/robust")).value) : WORDS[row.outcome]),
    make("span", {}, data.labels[reply.model]),
    make("span", {}, withTask ? data.titles[row.task] : item.id),
    make("span", {}, (reply.error || reply.text || "(empty)").slice(0, 200)));
  const box = make("details", { class: "item" }, headline);
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(body(item, reply)); });
  return box;
}

function body(item, reply) {
  const box = make("div");
  const part = (title, text) => box.append(make("h4", {}, title), make("pre", { dir: "auto" }, text));
  if (reply.prompt) part("Prompt", data.prompts[reply.prompt]);
  for (const address of item.pictures || []) if (address) box.append(make("img", { src: address, alt: "the item's picture", class: "picture" }));
  if (reply.thinking) part("Thinking (not scored)", reply.thinking);
  part("Reply" + (reply.finish === "length" ? " (cut by max_tokens)" : ""), reply.error ? "refused: " + reply.error : reply.text || "(empty)");
  part("Reference", item.reference);
  const read = reply.grades.map((g) => `${g.by}: ${g.value === null ? "no answer" + (g.why ? " (" + g.why + ")" : "") : g.value}${WORDS[g.outcome] && g.value !== null ? ", " + WORDS[g.outcome] : ""}${g.reason ? " \u2013 " + g.reason : ""}`);
  part("What was read", read.join("\n"));
  if (reply.divided) part("Judges differ", reply.divided.join("\n"));
  part("Item", `${item.id}  ${item.tags}`);
  return box;
}

// The items of one task, or of all tasks where the page holds them all; else the first one's, and a choice.
function browse(place, task) {
  const beside = Object.keys(data.beside);
  if (!beside.length) return browser(place, task);
  const chosen = task || beside[0];
  place.replaceChildren(make("p", { class: "hint", role: "status" }, "Loading " + data.titles[chosen] + " …"));
  loaded(chosen).then(
    () => browser(place, chosen),
    () => {
      delete loading[chosen];
      const choice = place.dataset.task ? [] : [make("div", { class: "filters" }, taskField(place, chosen))];
      place.replaceChildren(...choice, make("p", { class: "notice failed" }, `The items of this task are not here: they lie in ${data.beside[chosen]} beside the page. Copy that folder along with it.`));
    });
}

// The choice of a task on the page of all items.
function taskField(place, task) {
  const names = Object.keys(data.beside).length ? Object.keys(data.beside) : ["", ...Object.keys(data.tasks)];
  const tasks = make("select", {}, ...names.map((name) => make("option", { value: name }, name ? data.titles[name] : "all tasks")));
  tasks.value = task;
  tasks.addEventListener("input", () => browse(place, tasks.value));
  return make("label", {}, "Task ", tasks);
}

function browser(place, task) {
  const all = rowsOf(task);
  const option = (value, text) => make("option", { value }, text);
  place.replaceChildren();
  const models = [...new Set(all.map((row) => row.reply.model))];
  const tutor = make("select", {}, option("", "all tutors"), ...models.map((name) => option(name, data.labels[name])));
  const kinds = [...new Set(all.map((row) => row.outcome))];
  const outcome = make("select", {}, option("", "all outcomes"), ...kinds.map((kind) => option(kind, WORDS[kind] || "has a value")));
  const judges = make("select", {}, option("", "all replies"), option("differ", "judges differ"));
  const search = make("input", { type: "search", placeholder: "search prompt, reply, reference" });
  const count = make("span", { class: "hint", role: "status" });
  const list = make("div");
  let shown = PAGE;
  const update = () => {
    const words = search.value.toLowerCase();
    const found = all.filter(({ item, reply, outcome: kind }) =>
      (!tutor.value || reply.model === tutor.value) && (!outcome.value || kind === outcome.value) &&
      (!judges.value || reply.divided) &&
      (!words || [reply.text, item.id, item.tags, item.reference, reply.prompt ? data.prompts[reply.prompt] : ""].some((text) => text.toLowerCase().includes(words))));
    count.textContent = `${found.length} of ${all.length} replies`;
    list.replaceChildren(...found.slice(0, shown).map((row) => entry(row, !task)));
    if (found.length > shown) {
      const more = make("button", { class: "more" }, "Show more");
      more.addEventListener("click", () => { shown += PAGE; update(); });
      list.append(more);
    }
  };
  for (const control of [tutor, outcome, judges, search]) control.addEventListener("input", () => { shown = PAGE; update(); });
  const field = (text, control) => make("label", {}, text + " ", control);
  const fields = place.dataset.task ? [] : [taskField(place, task)];
  place.append(make("div", { class: "filters" }, ...fields, field("Tutor", tutor), field("Outcome", outcome), ...(all.some(({ reply }) => reply.divided) ? [field("Judges", judges)] : []), field("Search", search), count), list);
  update();
}

for (const header of document.querySelectorAll(".sortable th[aria-sort]")) header.querySelector("button").addEventListener("click", () => sortBy(header));
for (const button of document.querySelectorAll(".toggle button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".toggle button")) other.setAttribute("aria-pressed", String(other === button));
    for (const table of document.querySelectorAll("table.board")) table.hidden = table.dataset.scoring !== button.dataset.scoring;
  });
}
document.getElementById("jump").addEventListener("change", (event) => { if (event.target.value) location.hash = event.target.value; });
addEventListener("hashchange", show);
show();
