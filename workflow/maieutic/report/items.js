// The item browser: a list of items, and beside it one item with the replies of several tutors. The list, its filters and
// its orders use an index of all items; the texts are loaded in parts, as they are read.
const PAGE = 50;
const MARKS = 4; // maximum number of tutors whose outcome is named in the list; of more tutors, outcomes are counted
const LONG = 1200; // number of characters from which a message of a prompt is folded
const PINNED = 3; // number of replies that are shown unfolded
const ASK_FROM = 20 * 2 ** 20; // bytes of texts that a search loads only on request
const OUTCOMES = { r: "right", w: "wrong", n: "none", v: "value" };
const WORDS = { right: "right", wrong: "wrong", none: "no answer", value: "" };
const loading = {};
for (const [task, set] of Object.entries(data.sets)) {
  data.titles[task] = set.title;
  data.desired[task] = Object.setPrototypeOf(set.desired, null);
  data.criteria[task] = set.criteria;
}

// Files beside the page call these functions with a task's index, and with a part of its texts.
function indexed(task, shelf) {
  data.shelves[task] = shelf;
  data.chunks[task] = [];
}

function items(task, part, chunk) {
  data.chunks[task][part] = chunk.items;
  Object.assign(data.prompts, chunk.prompts);
}

const nameOf = (tutor) => data.labels[tutor] ?? tutor;
const allTasks = () => Object.keys(Object.keys(data.beside).length ? data.beside : data.shelves);

function loaded(task) {
  if (Object.hasOwn(data.shelves, task)) return Promise.resolve();
  return (loading[task] ??= beside(data.beside[task]).then(() => {
    if (!Object.hasOwn(data.shelves, task)) throw new Error(task);
  }));
}

const textOfRow = (row) => data.chunks[row.task][Math.floor(row.at / data.shelves[row.task].chunk)]?.[row.at % data.shelves[row.task].chunk];

// Loads the texts of items, and calls `done` with the number of loaded files after each.
async function loadTextsOf(rows, done = () => {}) {
  const files = [...new Set(rows.filter((row) => !textOfRow(row)).map((row) => data.shelves[row.task].files[Math.floor(row.at / data.shelves[row.task].chunk)][0]))];
  for (const [at, file] of files.entries()) {
    try {
      await (loading[file] ??= beside(file));
    } catch (error) {
      delete loading[file];
      throw error;
    }
    done(at + 1, files.length);
  }
}

const bytesOf = (rows) => {
  const parts = new Map();
  for (const row of rows) {
    const file = data.shelves[row.task].files[Math.floor(row.at / data.shelves[row.task].chunk)];
    if (file && !textOfRow(row)) parts.set(...file);
  }
  return [...parts.values()].reduce((sum, size) => sum + size, 0);
};

function rowsOf(task) {
  return (task ? [task] : Object.keys(data.shelves)).flatMap((name) => data.shelves[name].rows.map((row, at) => {
    const tutors = data.shelves[name].tutors;
    const replies = tutors.map((model, place) => ({ model, outcome: OUTCOMES[row.marks[place]], value: row.values?.[place] })).filter((reply) => reply.outcome);
    return { ...row, task: name, at, replies };
  }));
}

const isRanked = (reply) => !data.baselines.includes(reply.model);
const tutorsOf = ({ replies }) => replies.filter(isRanked);

// Returns the grade that counts for the task's headline; without one, the first under `robust`, or the first of all.
function gradeOf(reply) {
  return reply.grades.find((grade) => grade.head) || reply.grades.find((grade) => grade.scoring === "robust") || reply.grades[0];
}

// Returns the quality of a reply as a number, which is higher for the better of two replies. A reply that cannot be read
// counts as wrong. The result is NaN for a missing reply and for a verdict that is a word.
function standing(reply) {
  if (!reply) return NaN;
  if (reply.outcome === "value") return typeof reply.value === "number" ? reply.value : NaN;
  return Number(reply.outcome === "right");
}

const wordOf = ({ outcome, value }) => (outcome === "value" ? String(value) : WORDS[outcome]);
const markOf = (reply) => make("span", { class: "mark-" + reply.outcome }, wordOf(reply));

// An item in the list: its first words with its id, and the tutors' outcomes; of many tutors, a strip with a cell for each.
function entry(row, replies, withTask) {
  let marks = replies.map((reply) => make("span", { class: "of-tutor" }, markOf(reply), replies.length > 1 ? " " + nameOf(reply.model) : ""));
  if (replies.length > MARKS) {
    const outcomes = replies.map((reply) => reply.outcome);
    const counts = [...new Set(outcomes)].map((kind) => `${outcomes.filter((other) => other === kind).length} ${WORDS[kind] || "with a value"}`).join(", ");
    marks = [make("span", { class: "strip", role: "img", "aria-label": counts }, ...replies.map((reply) => make("i", { class: "is-" + reply.outcome, title: `${nameOf(reply.model)}: ${wordOf(reply)}` }))), make("small", {}, counts)];
  }
  return make("button", { class: "item", "data-item": row.id },
    make("span", { class: "item-title", dir: "auto" }, row.title || row.id), make("small", { class: "group" }, [row.title ? row.id : "", withTask ? data.titles[row.task] : ""].filter(Boolean).join(", ")),
    make("span", { class: "marks" }, ...marks));
}

const rightShare = (row) => {
  const known = tutorsOf(row).map(standing).filter((value) => !isNaN(value));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : NaN;
};

// Starred items are kept by the browser for this report, and for this visit alone where it keeps nothing.
const STARS = "maieutic stars " + document.title;
let stars = new Set();
try {
  stars = new Set(JSON.parse(localStorage.getItem(STARS) ?? "[]"));
} catch { /* kept for this visit */ }
const starOf = (row) => `${row.task} ${row.id}`;
function toggleStar(row) {
  if (!stars.delete(starOf(row))) stars.add(starOf(row));
  try {
    localStorage.setItem(STARS, JSON.stringify([...stars]));
  } catch { /* kept for this visit */ }
}

// Questions about an item's replies, each with its text and condition. Letters are those of `flags_of` in browser.py.
const LETTERS = { apart: "p", readings: "d", unread: "u", judges: "j", labelled: "l" };
const flag = (name) => (row) => Boolean(row.flags?.includes(LETTERS[name]));
const QUESTIONS = {
  apart: ["judge and people differ", flag("apart")],
  readings: ["robust and paper_compat differ", flag("readings")],
  alone: ["one tutor alone is right", (row) => tutorsOf(row).length > 1 && tutorsOf(row).filter((reply) => reply.outcome === "right").length === 1],
  wrong: ["all tutors are wrong", (row) => tutorsOf(row).length > 0 && tutorsOf(row).every((reply) => ["wrong", "none"].includes(reply.outcome))],
  right: ["all tutors are right", (row) => tutorsOf(row).length > 0 && tutorsOf(row).every((reply) => reply.outcome === "right")],
  unread: ["a value is unread", flag("unread")],
  judges: ["judges differ", flag("judges")],
  labelled: ["people have labelled a reply", flag("labelled")],
  starred: ["starred by you", (row) => stars.has(starOf(row))],
};
const SORTS = {
  "": ["as drawn", null],
  apart: ["most disagreement", (row) => { const share = rightShare(row); return isNaN(share) ? 1 : Math.abs(share - 0.5); }],
  hard: ["hardest", (row) => { const share = rightShare(row); return isNaN(share) ? 2 : share; }],
  long: ["longest reply", (row) => -row.long],
};

// Returns items and replies as lines of JSON, as a table, or as a text.
function exported(kind, matches) {
  const records = matches.flatMap(([row, replies]) => replies.map((reply) => {
    const item = textOfRow(row);
    return { ...item.fields, task: row.task, id: row.id, tutor: reply.model, outcome: reply.outcome, value: reply.value ?? gradeOf(replyTo(row, reply))?.value ?? null, reply: replyTo(row, reply).text, reference: item.reference };
  }));
  if (kind === "jsonl") return records.map((record) => JSON.stringify(record) + "\n").join("");
  const columns = [...new Set(records.flatMap(Object.keys))];
  if (kind === "csv") return [columns, ...records.map((record) => columns.map((name) => String(record[name] ?? "")))].map(csvLine).join("");
  const quoted = (text) => text.split("\n").map((line) => "> " + line).join("\n");
  return matches.map(([row, replies]) => [`## ${row.id} (${data.titles[row.task]})`, ...Object.entries(textOfRow(row).fields ?? {}).map(([name, text]) => `**${inWords(name)}**\n\n${quoted(text)}`), ...replies.map((reply) => `**${nameOf(reply.model)}** (${wordOf(reply)})\n\n${quoted(replyTo(row, reply).text)}`), ""].join("\n\n")).join("\n");
}

const replyTo = (row, { model }) => textOfRow(row).replies.find((reply) => reply.model === model);

function part(box, title, text) {
  if (text) box.append(make("h3", {}, title), itemText(text));
}

// The texts of an item: its fields, the replies of up to three tutors, the others folded, and the verdicts.
// question: the replies for which the item answers it come first.
function body(row, marks, question, pin) {
  const item = textOfRow(row);
  const box = make("div");
  const replies = marks.map((mark) => ({ ...mark, ...replyTo(row, mark) }));
  const prompted = replies.find((reply) => reply.prompt);
  const messages = prompted ? data.prompts[prompted.prompt] : item.question;
  const fields = Object.entries(item.fields ?? {});
  for (const [name, text] of fields) part(box, inWords(name), text);
  if (messages) box.append(fields.length ? make("details", {}, make("summary", {}, "Prompt with instructions"), conversation(messages)) : conversation(messages));
  for (const address of item.pictures || []) if (address) box.append(make("img", { src: address, alt: "the item's picture", class: "picture" }));
  const answers = (reply) => Number(Boolean(LETTERS[question] && reply.flags?.includes(LETTERS[question])));
  const ranked = replies.filter(isRanked).sort((a, b) => answers(b) - answers(a));
  const pinned = (ranked.length ? ranked : replies).slice(0, PINNED);
  box.append(make("h3", {}, replies.length === 1 ? "Reply" : "Replies"), make("div", { class: "replies" }, ...pinned.map((reply) => replyBox(row.task, reply, prompted))));
  for (const reply of replies.filter((other) => !pinned.includes(other))) {
    const button = make("button", { class: "plain" }, "show beside the others");
    button.addEventListener("click", () => pin(reply.model));
    box.append(make("details", { class: "folded" }, make("summary", {}, nameOf(reply.model) + " ", markOf(reply)), button, replyBox(row.task, reply, prompted)));
  }
  const judged = replies.filter((reply) => reply.grades.some(isVerdict) || reply.labels);
  if (judged.length) box.append(make("h3", {}, "Verdicts"), ...verdictTable(row.task, item, judged));
  part(box, "Reference", item.reference);
  if (item.leaked) part(box, "Seen by the reward model in training", item.leaked.join("\n"));
  box.append(make("p", { class: "hint" }, `${row.tags} `, make("a", { href: linkTo(row.task, { item: row.id }) }, "link to this item")));
  return box;
}

const isVerdict = (grade) => grade.kind === "judge" && grade.scoring === "robust" && grade.criterion;
const labelOf = (verdict) => (typeof verdict === "boolean" ? (verdict ? "pass" : "fail") : valueInWords(verdict)); // as verdict_label
const same = (verdict, label) => labelOf(verdict).toLowerCase() === valueInWords(label).toLowerCase();

// Verdicts and labels with criteria as rows and tutors as columns. Criteria on which tutors, judges or people differ come
// first. A click on a cell shows who gave which verdict, and why.
function verdictTable(task, item, replies) {
  const words = Object.assign(Object.create(null), data.criteria[task], item.criteria);
  const ranked = replies.filter(isRanked);
  const columns = ranked.length ? ranked : replies;
  const found = new Map();
  for (const reply of replies) {
    for (const grade of reply.grades.filter(isVerdict)) found.set(grade.criterion, true);
    for (const [criterion] of reply.labels ?? []) found.set(criterion, true);
  }
  const cellOf = (reply, criterion) => {
    const grades = reply.grades.filter((grade) => isVerdict(grade) && grade.criterion === criterion);
    const labels = (reply.labels ?? []).filter(([name]) => name === criterion);
    const known = grades.filter((grade) => grade.value !== null);
    const apart = known.some((grade) => grade.value !== known[0].value) || labels.some(([, label]) => known.some((grade) => !same(grade.value, label)) || label !== labels[0][1]);
    return { reply, criterion, grades, labels, apart, shown: grades[0]?.value ?? labels[0]?.[1] ?? null };
  };
  const rows = [...found.keys()].map((criterion) => ({ criterion, cells: columns.map((reply) => cellOf(reply, criterion)) }));
  const differs = ({ cells }) => Number(cells.some((cell) => cell.apart)) * 2 + Number(new Set(cells.map((cell) => cell.shown)).size > 1);
  rows.sort((a, b) => differs(b) - differs(a));
  const told = make("div", { class: "told-verdict", role: "status" });
  const tell = (cell, button) => {
    for (const other of told.parentElement.querySelectorAll(".verdicts button")) other.setAttribute("aria-expanded", String(other === button));
    told.replaceChildren(
      make("p", {}, make("b", {}, `${inWords(cell.criterion)}, ${nameOf(cell.reply.model)}`), words[cell.criterion] ? `: ${words[cell.criterion]}` : ""),
      ...cell.grades.map((grade) => make("p", { class: "reason", dir: "auto" }, `${data.graders[grade.by] ?? grade.by}: ${grade.value === null ? `no answer${grade.why ? ` (${grade.why})` : ""}` : valueInWords(grade.value)}${grade.reason ? `. ${grade.reason}` : ""}`)),
      ...cell.labels.map(([, label, annotator]) => make("p", { class: "reason", dir: "auto" }, `People${annotator ? ` (${annotator})` : ""}: ${label}`)));
  };
  const buttonOf = (cell) => {
    const outcome = cell.grades[0]?.outcome ?? "value";
    const button = make("button", { class: "plain mark-" + outcome, "aria-expanded": "false" }, `${cell.apart ? "≠ " : ""}${cell.shown === null ? "no answer" : valueInWords(cell.shown)}`);
    button.addEventListener("click", () => tell(cell, button));
    return button;
  };
  const table = make("table", { class: "verdicts" },
    make("thead", {}, make("tr", {}, make("th", { class: "name", scope: "col" }, "Criterion"), ...columns.map((reply) => make("th", { scope: "col" }, nameOf(reply.model))))),
    make("tbody", {}, ...rows.map(({ criterion, cells }) => make("tr", {}, make("th", { class: "name", scope: "row", title: words[criterion] ?? "" }, inWords(criterion)), ...cells.map((cell) => make("td", {}, cell.grades.length || cell.labels.length ? buttonOf(cell) : "–"))))));
  return [make("div", { class: "scroll", tabindex: "0" }, table), make("p", { class: "hint" }, "≠: the judges, or judge and people, differ. A click on a verdict shows its reasons."), told];
}

// A prompt as a chat. Long messages, such as instructions with examples, can be unfolded.
function conversation(messages) {
  return make("div", { class: "conversation" }, ...messages.map(([role, text]) => {
    const content = make("pre", { dir: "auto", tabindex: "0" }, text);
    const long = text.length > LONG ? [make("details", {}, make("summary", {}, text.trim().slice(0, 160) + " …"), content)] : [content];
    return make("div", { class: `message ${role === "user" || role === "assistant" ? role : "system"}` }, make("span", { class: "role" }, role), ...long);
  }));
}

const inWords = (name) => { const text = name.replaceAll("_", " "); return text.charAt(0).toUpperCase() + text.slice(1).toLowerCase(); };
const valueInWords = (value) => (value === true ? "yes" : value === false ? "no" : typeof value === "string" ? value.replaceAll("_", " ") : String(value));

const KINDS = { __proto__: null, judge: "Verdict" }; // titles of kinds of grades that differ from the kind's name

// A grade in words, such as "Mistake identification: To some extent; desired: Yes".
function chip(task, grade) {
  const desired = data.desired[task]?.[grade.criterion];
  const value = grade.value === null ? `no answer${grade.why ? ` (${grade.why})` : ""}` : valueInWords(grade.value);
  const wanted = desired && grade.outcome === "wrong" ? `; desired: ${desired}` : "";
  const right = typeof grade.value === "boolean" || desired ? "" : WORDS[grade.outcome] && grade.value !== null ? `, ${WORDS[grade.outcome]}` : "";
  const by = grade.by ? ` (${data.graders[grade.by] ?? grade.by})` : "";
  return make("span", { class: "chip mark-" + grade.outcome, title: `${inWords(grade.criterion ?? grade.kind)}${by}` }, `${inWords(grade.criterion ?? KINDS[grade.kind] ?? grade.kind)}: ${value}${wanted}${right}`);
}

// A text with marked passages. Overlapping passages are joined.
function highlighted(text, spans) {
  const parts = [];
  let place = 0;
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (end <= place) continue;
    parts.push(text.slice(place, Math.max(place, start)), make("mark", {}, text.slice(Math.max(place, start), end)));
    place = end;
  }
  return [...parts, text.slice(place)];
}

function replyBox(task, reply, prompted) {
  const box = make("article", {}, make("h4", {}, nameOf(reply.model) + " ", markOf(reply)));
  if (reply.prompt && reply.prompt !== prompted.prompt) {
    box.append(make("details", {}, make("summary", {}, "Different prompt"), conversation(data.prompts[reply.prompt])));
  }
  if (reply.thinking) box.append(make("details", {}, make("summary", {}, "Thinking (not scored)"), make("pre", { dir: "auto" }, reply.thinking)));
  if (reply.finish === "length") box.append(make("p", { class: "hint" }, "cut by max_tokens"));
  const robust = reply.grades.filter((grade) => grade.scoring === "robust");
  const spans = robust.flatMap((grade) => (grade.span ? [grade.span] : []));
  const content = reply.error ? ["refused: " + reply.error] : reply.text ? highlighted(reply.text, spans) : ["(empty)"];
  // Where a passage is marked, the raw text is shown, to which the marks belong.
  const isPlain = spans.length || reply.error || !reply.text;
  const bubble = isPlain ? make("pre", { dir: "auto", tabindex: "0" }, ...content) : replyText(reply.text);
  bubble.classList.add("bubble");
  box.append(bubble);
  if (spans.length) box.append(make("p", { class: "hint" }, "Marked: the passage from which the parser reads its value."));
  const others = robust.filter((grade) => !isVerdict(grade));
  box.append(make("p", { class: "chips" }, ...others.map((grade) => chip(task, grade))));
  for (const grade of others) if (grade.reason) box.append(make("p", { class: "reason", dir: "auto" }, grade.reason));
  const read = reply.grades.map((g) => make("li", {},
    make("b", {}, `${inWords(g.criterion ?? g.kind)}, ${g.scoring}`), `: ${g.value === null ? "no answer" + (g.why ? " (" + g.why + ")" : "") : valueInWords(g.value)}${WORDS[g.outcome] && g.value !== null ? ", " + WORDS[g.outcome] : ""}`,
    ...(g.raw ? [make("details", {}, make("summary", {}, "passage"), make("pre", { dir: "auto", tabindex: "0" }, g.raw))] : [])));
  if (read.length) box.append(make("details", { class: "read" }, make("summary", {}, "What was read"), make("ul", { class: "grades" }, ...read)));
  return box;
}

// Shows the items of one task. Without a task, shows those of all tasks if the page contains them, or else of the first.
function browse(place, requested, parameters = {}) {
  const turn = (place.turn = (place.turn ?? 0) + 1); // a slow file must not overwrite a later choice
  const names = Object.keys(data.beside);
  const task = requested && allTasks().includes(requested) ? requested : "";
  if (!names.length) return browser(place, task, parameters);
  const chosen = task || names[0];
  place.replaceChildren(make("p", { class: "hint", role: "status" }, "Loading " + data.titles[chosen] + " …"));
  return loaded(chosen).then(
    () => turn === place.turn && browser(place, chosen, parameters),
    () => {
      delete loading[chosen];
      if (turn !== place.turn) return;
      const choice = place.dataset.task ? [] : [make("div", { class: "filters" }, taskField(place, chosen))];
      place.replaceChildren(...choice, make("p", { class: "notice failed" }, notBeside(data.beside[chosen])));
    });
}

const notBeside = (file) => `The items of this task are not in the page but in ${file} beside it. Copy that folder together with the page.`;

// The field for the choice of a task on the page of all items.
function taskField(place, task) {
  const names = Object.keys(data.beside).length ? allTasks() : ["", ...allTasks()];
  const tasks = choice(names.map((name) => [name, name ? data.titles[name] : "all tasks"]), task);
  tasks.addEventListener("input", () => browse(place, tasks.value));
  return make("label", {}, "Task ", tasks);
}

function linkTo(task, parameters) {
  return "#/items?" + new URLSearchParams({ task, ...parameters });
}

// Filters of items by two tutors' replies, each with its label and condition.
const RELATIONS = {
  "": ["any", () => true],
  first: ["the first tutor is ahead", (a, b) => standing(a) > standing(b)],
  second: ["the second tutor is ahead", (a, b) => standing(b) > standing(a)],
  differ: ["one of the two is ahead", (a, b) => standing(a) > standing(b) || standing(b) > standing(a)],
};

// Marks the words of a search in a text, where the browser can.
function markWords(place, words) {
  if (!window.Highlight) return;
  CSS.highlights.delete("found");
  const ranges = [];
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  while (words && walker.nextNode()) {
    const node = walker.currentNode;
    for (let at = node.data.toLowerCase().indexOf(words); at >= 0; at = node.data.toLowerCase().indexOf(words, at + words.length)) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
  }
  if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
}

function browser(place, task, parameters) {
  const all = rowsOf(task);
  const replies = all.flatMap((row) => row.replies);
  const order = [...data.leading, ...Object.keys(data.labels)];
  const models = [...new Set(replies.map((reply) => reply.model))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const kinds = [...new Set(replies.map((reply) => reply.outcome))];
  const named = models.map((name) => [name, nameOf(name)]);
  const known = (name) => (models.includes(name) ? name : "");
  const tutor = choice([["", "all tutors"], ...named], known(parameters.first));
  const other = choice([["", "no other tutor"], ...named], known(parameters.second));
  const relation = choice(Object.entries(RELATIONS).map(([value, [text]]) => [value, text]), parameters.show in RELATIONS ? parameters.show : "");
  const outcome = choice([["", "all outcomes"], ...kinds.map((kind) => [kind, WORDS[kind] || "has a value"])], kinds.includes(parameters.outcome) ? parameters.outcome : "");
  const asked = Object.entries(QUESTIONS).map(([name, [text, holds]]) => [name, text, all.filter(holds).length]).filter(([name, , number]) => number || name === "starred");
  const where = choice([["", "any"], ...asked.map(([name, text, number]) => [name, name === "starred" ? text : `${text} (${number})`])], asked.some(([name]) => name === parameters.where) ? parameters.where : "");
  const sort = choice(Object.entries(SORTS).map(([name, [text]]) => [name, text]), parameters.sort in SORTS ? parameters.sort : "");
  const tags = [...new Set(all.map((row) => row.tags))];
  const tag = choice([["", "any"], ...tags.map((name) => [name, `${name} (${all.filter((row) => row.tags === name).length})`])], tags.includes(parameters.tag) ? parameters.tag : "");
  const leaked = choice([["", "all items"], ["no", "not leaked"], ["yes", "leaked"]], parameters.leaked ?? "");
  const search = make("input", { type: "search", placeholder: "search prompt, reply, reference", value: parameters.q ?? "" });
  const count = make("span", { class: "hint count", role: "status" });
  const items = make("span", { class: "hint" });
  const list = make("div", { class: "list", role: "group", "aria-label": "Items" });
  const reader = make("div", { class: "reader" });
  let limit = PAGE;
  let chosen; // the entry of the item that is shown
  // The item that is shown: its task and id. On the page of all tasks, an address names both.
  let current = parameters.item && (parameters.of || task ? `${parameters.of || task} ${parameters.item}` : starOf(all.find((row) => row.id === parameters.item) ?? { task: "", id: "" }));
  let cell = parameters.cell ?? ""; // a cell of a confusion matrix: judge, criterion, verdict and label
  let pins = (parameters.pin ?? "").split(",").filter(known);
  let shown = [];
  let reading = 0; // number of the latest choice of an item, whose texts may come late
  const field = (text, control) => make("label", { "data-filter": text }, text + " ", control);
  const relationField = field("Items where", relation);
  const textsOf = (row, reply) => {
    const item = textOfRow(row);
    if (!item) return [];
    const { text, prompt } = replyTo(row, reply);
    return [text, item.reference, ...Object.values(item.fields ?? {}), ...((prompt ? data.prompts[prompt] : item.question) ?? []).map((part) => part[1])];
  };
  const inCell = (row) => {
    const { cells, tutors } = data.shelves[row.task];
    const code = cells.findIndex((parts) => parts.join("|") === cell);
    return (row.cells ?? []).filter(([at]) => at === code).map(([, at]) => tutors[at]);
  };
  const matching = (row) => {
    if (leaked.value && Boolean(row.leaked) !== (leaked.value === "yes")) return [];
    if (tag.value && row.tags !== tag.value) return [];
    if (where.value && !QUESTIONS[where.value][1](row)) return [];
    const replyOf = (name) => row.replies.find((reply) => reply.model === name);
    if (tutor.value && other.value && !RELATIONS[relation.value][1](replyOf(tutor.value), replyOf(other.value))) return [];
    const words = search.value.toLowerCase();
    const inTitle = words && [row.id, row.title, row.tags].some((text) => text.toLowerCase().includes(words));
    const labelled = cell && inCell(row);
    return row.replies.filter((reply) =>
      (!tutor.value || reply.model === tutor.value || reply.model === other.value) &&
      (!outcome.value || reply.outcome === outcome.value) && (!labelled || labelled.includes(reply.model)) &&
      (!words || inTitle || textsOf(row, reply).some((text) => text.toLowerCase().includes(words))));
  };
  const first = (reply) => { const at = [...pins, ...models].indexOf(reply.model); return reply.model === tutor.value ? -2 : reply.model === other.value ? -1 : at; };
  const remember = () => {
    if (place.dataset.task || place.closest("section").hidden) return;
    const state = { task, first: tutor.value, second: other.value, show: relation.value, where: where.value, tag: tag.value, sort: sort.value, outcome: outcome.value, leaked: leaked.value, cell, q: search.value, pin: pins.join(","), item: current?.slice(current.indexOf(" ") + 1), of: task ? "" : current?.split(" ")[0] };
    const query = String(new URLSearchParams(Object.entries(state).filter(([, value]) => value)));
    history.replaceState(null, "", "#/items" + (query ? "?" + query : ""));
  };
  const update = () => {
    relationField.hidden = !(tutor.value && other.value);
    const matches = all.map((row) => [row, matching(row).sort((a, b) => isRanked(b) - isRanked(a) || first(a) - first(b))]).filter(([, rowReplies]) => rowReplies.length);
    const key = SORTS[sort.value][1];
    if (key) matches.sort(([a], [b]) => key(a) - key(b));
    shown = matches;
    const number = matches.reduce((sum, [, rowReplies]) => sum + rowReplies.length, 0);
    count.textContent = `${number.toLocaleString("en")} of ${replies.length.toLocaleString("en")} replies`;
    items.replaceChildren(`${matches.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} items`);
    if (cell) {
      const [judge, criterion, verdict, label] = cell.split("|");
      const drop = make("button", { class: "plain" }, "show all");
      drop.addEventListener("click", () => { cell = ""; update(); });
      items.append(`, which ${data.graders[judge] ?? judge} judged “${verdict}” and people labelled “${label}” in ${inWords(criterion)} `, drop);
    }
    const bytes = search.value ? bytesOf(all) : 0;
    if (bytes) {
      const rest = make("button", { class: "more" }, `Search the other texts (${(bytes / 2 ** 20).toFixed(0)} MB)`);
      const read = () => loadTextsOf(all, (at, of) => { rest.textContent = `Reading ${at} of ${of} files`; }).then(() => list.isConnected && update(), () => { rest.textContent = notBeside(data.beside[task]); });
      rest.addEventListener("click", read);
      items.append(`; searched: all titles and the texts of ${all.filter(textOfRow).length} items `, rest);
      if (bytes <= ASK_FROM) read();
    }
    const wanted = Math.max(0, matches.findIndex(([row]) => starOf(row) === current));
    limit = Math.max(limit, wanted + 1);
    const entries = matches.slice(0, limit).map(([row, rowReplies]) => entry(row, rowReplies, !task));
    const read = async (at) => {
      chosen?.removeAttribute("aria-current");
      chosen = entries[at];
      chosen.setAttribute("aria-current", "true");
      const [row, rowReplies] = matches[at];
      const turn = ++reading;
      if (at || current) current = starOf(row);
      remember();
      const step = (text, to) => {
        const button = make("button", { class: "more" }, text);
        button.disabled = to < 0 || to >= entries.length;
        button.addEventListener("click", () => { current = starOf(matches[to][0]); read(to); chosen.scrollIntoView({ block: "nearest" }); });
        return button;
      };
      const star = make("button", { class: "plain", "aria-pressed": String(stars.has(starOf(row))) }, stars.has(starOf(row)) ? "★ starred" : "☆ star");
      star.addEventListener("click", () => { toggleStar(row); read(at); });
      reader.dataset.item = row.id;
      const head = make("div", { class: "reader-head" }, make("h3", { dir: "auto" }, row.title || row.id), make("span", { class: "hint" }, `${row.id}, ${data.titles[row.task]}, ${at + 1} of ${matches.length}`), star, step("Previous", at - 1), step("Next", at + 1));
      if (!textOfRow(row)) {
        reader.replaceChildren(head, make("p", { class: "hint", role: "status" }, "Loading …"));
        try {
          await loadTextsOf([row]);
        } catch {
          if (turn === reading) reader.replaceChildren(head, make("p", { class: "notice failed" }, notBeside(data.beside[row.task])));
          return;
        }
        if (turn !== reading) return;
      }
      const pin = (name) => { pins = [name, ...pins.filter((one) => one !== name)].slice(0, PINNED); current = starOf(row); update(); };
      reader.replaceChildren(head, body(row, rowReplies, where.value, pin));
      markWords(reader, search.value.toLowerCase());
    };
    entries.forEach((button, at) => button.addEventListener("click", () => { current = starOf(matches[at][0]); read(at); }));
    list.replaceChildren(...entries);
    reader.replaceChildren();
    remember();
    if (entries.length) read(wanted);
    if (parameters.item && wanted) entries[wanted].scrollIntoView({ block: "nearest" });
    if (parameters.item && !all.some((row) => row.id === parameters.item)) list.prepend(make("p", { class: "notice" }, `The page does not contain the item ${parameters.item} of this task. Unset report.browser_items to include all items.`));
    if (matches.length > limit) {
      const more = make("button", { class: "more" }, "Show more");
      more.addEventListener("click", () => { limit += PAGE; update(); });
      list.append(more);
    }
  };
  for (const control of [tutor, other, relation, where, tag, sort, outcome, leaked, search]) control.addEventListener("input", () => { limit = PAGE; current = undefined; update(); });
  // Shows an item, also one that the filters leave out.
  const choose = (row) => {
    current = starOf(row);
    if (!matching(row).length) {
      for (const control of [tutor, other, where, tag, outcome, leaked, search]) control.value = "";
      cell = "";
    }
    update();
  };
  const saving = make("span", { class: "buttons" }, "Save these: ");
  for (const [kind, text] of [["jsonl", "JSON lines"], ["csv", "CSV"], ["md", "Markdown"]]) {
    const button = make("button", { class: "more" }, text);
    button.addEventListener("click", async () => {
      const matches = shown;
      try {
        await loadTextsOf(matches.map(([row]) => row));
      } catch {
        return reader.prepend(make("p", { class: "notice failed" }, notBeside(data.beside[task])));
      }
      save(`items.${kind}`, exported(kind, matches), "text/plain");
    });
    saving.append(button, " ");
  }
  const fields = place.dataset.task ? [] : [taskField(place, task)];
  const offered = [
    ...(kinds.length > 1 ? [field("Outcome", outcome)] : []),
    ...(tags.length > 1 && tags.length <= PAGE ? [field("Kind", tag)] : []),
    ...(all.some((row) => row.leaked) ? [field("Training", leaked)] : []),
  ];
  place.replaceChildren(
    make("div", { class: "filters" }, ...fields, field("Tutor", tutor), field("beside", other), relationField, field("Question", where), field("Sort by", sort), field("Search", search), ...offered, " ", count, items, saving),
    ...(data.sets[task] ? [make("p", { class: "hint" }, "The number beside a name is the share of people’s labels that are the desired ones.")] : []),
    keysField(), ...(task ? [heatMap(task, models, choose)] : []), make("div", { class: "panes" }, list, reader));
  update();
}

// All outcomes of a task at once: tutors are rows, and items are columns, the hardest first. It is drawn when it is seen.
function heatMap(task, models, choose) {
  const rows = rowsOf(task).map((row) => [row, rightShare(row)]).sort(([, a], [, b]) => (isNaN(a) ? 2 : a) - (isNaN(b) ? 2 : b)).map(([row]) => row);
  const numbers = rows.flatMap((row) => row.replies.filter((reply) => reply.outcome === "value").map(standing)).filter((value) => !isNaN(value));
  const [low, high] = [numbers.reduce((a, b) => Math.min(a, b), Infinity), numbers.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [height, width] = [14, Math.max(1, Math.min(14, Math.floor(1100 / rows.length)))];
  const canvas = Object.assign(make("canvas", { role: "img", "aria-label": `Outcomes of ${models.length} tutors on ${rows.length} items, the hardest first` }), { width: width * rows.length, height: height * models.length });
  const names = make("div", { class: "heat-names", "aria-hidden": "true" }, ...models.map((model) => make("span", {}, nameOf(model))));
  const under = make("span", { class: "hint" }, "The hardest items are on the left.");
  const itemAt = (event) => rows[Math.floor((event.offsetX * canvas.width) / canvas.clientWidth / width)];
  canvas.addEventListener("pointermove", (event) => { const row = itemAt(event); if (row) under.textContent = row.title || row.id; });
  canvas.addEventListener("click", (event) => { const row = itemAt(event); if (row) choose(row); });
  const fold = make("details", { class: "heat" }, make("summary", {}, "All outcomes at once"), make("div", { class: "heat-map" }, names, make("div", { class: "scroll" }, canvas)), make("p", { class: "legend" }, make("i", { class: "is-right" }), " right or high ", make("i", { class: "is-wrong" }), " wrong or low ", make("i", { class: "is-none" }), " no answer ", under));
  fold.addEventListener("toggle", () => {
    if (!fold.open) return;
    const pen = canvas.getContext("2d");
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    const [blue, orange, line] = ["blue", "orange", "line"].map(colour);
    rows.forEach((row, x) => row.replies.forEach((reply) => {
      const share = reply.outcome === "value" && !isNaN(standing(reply)) ? (high > low ? (standing(reply) - low) / (high - low) : 1) : reply.outcome === "right" ? 1 : 0;
      pen.fillStyle = reply.outcome === "none" || (reply.outcome === "value" && isNaN(standing(reply))) ? line : share < 0.5 ? orange : blue;
      pen.globalAlpha = reply.outcome === "value" ? 0.15 + 0.85 * Math.abs(2 * share - 1) : 1;
      pen.fillRect(x * width, models.indexOf(reply.model) * height, width > 3 ? width - 1 : width, height - 1);
    }));
  });
  return fold;
}

// Letter keys can be switched off, because dictation software types them unintentionally.
let keys = true;

function keysField() {
  const control = Object.assign(make("input", { type: "checkbox" }), { checked: keys });
  control.addEventListener("input", () => {
    keys = control.checked;
    for (const other of document.querySelectorAll(".keys input")) other.checked = keys;
  });
  const raw = Object.assign(make("input", { type: "checkbox" }), { checked: rawTexts });
  raw.addEventListener("input", () => {
    rawTexts = raw.checked;
    document.querySelector("section:not([hidden]) .item[aria-current]")?.click();
  });
  return make("p", { class: "hint keys" }, make("label", {}, control, " Keys"), ": j and k show the next and the previous item, / starts a search. ", make("label", {}, raw, " Raw texts"), ", without layout and formulas.");
}

addEventListener("keydown", (event) => {
  if (!keys || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const page = document.querySelector("section[data-page]:not([hidden])");
  if (event.key === "/") {
    const search = page.querySelector("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  } else if (event.key === "j" || event.key === "k") {
    const lines = [...page.querySelectorAll(".browser .item")];
    if (!lines.length) return;
    const at = lines.findIndex((line) => line.hasAttribute("aria-current"));
    const next = lines[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), lines.length - 1)];
    next.focus();
    next.click();
    next.scrollIntoView({ block: "nearest" });
  }
});
