// The item browser: a list of items, and beside it one item with the replies of several tutors.
const PAGE = 50;
const MARKS = 4; // maximum number of tutors whose outcome is named in the list; of more tutors, outcomes are counted
const LONG = 1200; // number of characters from which a message of a prompt is folded
const loading = {};
const WORDS = { right: "right", wrong: "wrong", none: "no answer", value: "" };

// Files beside the page call this function with a task's items.
function items(task, chunk) {
  data.tasks[task] = chunk.items;
  Object.assign(data.prompts, chunk.prompts);
}

function loaded(task) {
  if (Object.hasOwn(data.tasks, task)) return Promise.resolve();
  return (loading[task] ??= beside(data.beside[task]).then(() => {
    if (!Object.hasOwn(data.tasks, task)) throw new Error(task);
  }));
}

// Returns the grade that counts for the task's headline; without one, the first under `robust`, or the first of all.
function gradeOf(reply) {
  return reply.grades.find((grade) => grade.head) || reply.grades.find((grade) => grade.scoring === "robust") || reply.grades[0];
}

function outcomeOf(reply) {
  return gradeOf(reply)?.outcome ?? "none";
}

// Returns the quality of a reply as a number, which is higher for the better of two replies. A reply that cannot be read
// counts as wrong. The result is NaN for a missing reply and for a verdict that is a word.
function standing(reply) {
  const grade = reply && gradeOf(reply);
  if (!grade) return NaN;
  if (grade.outcome === "value") return typeof grade.value === "number" ? grade.value : NaN;
  return Number(grade.outcome === "right");
}

function rowsOf(task) {
  return (task ? [task] : Object.keys(data.tasks)).flatMap((name) => (data.tasks[name] ?? []).map((item) => ({ task: name, item })));
}

function markOf(reply) {
  const outcome = outcomeOf(reply);
  return make("span", { class: "mark-" + outcome }, outcome === "value" ? String(gradeOf(reply).value) : WORDS[outcome]);
}

// An item in the list: its first words with its id, and the tutors' outcomes; of many tutors, a strip with a cell for each.
function entry(row, replies, withTask) {
  const { item } = row;
  let marks = replies.map((reply) => make("span", { class: "of-tutor" }, markOf(reply), replies.length > 1 ? " " + data.labels[reply.model] : ""));
  if (replies.length > MARKS) {
    const outcomes = replies.map(outcomeOf);
    const counts = [...new Set(outcomes)].map((kind) => `${outcomes.filter((other) => other === kind).length} ${WORDS[kind] || "with a value"}`).join(", ");
    marks = [make("span", { class: "strip", role: "img", "aria-label": counts }, ...replies.map((reply) => make("i", { class: "is-" + outcomeOf(reply), title: `${data.labels[reply.model]}: ${WORDS[outcomeOf(reply)] || gradeOf(reply).value}` }))), make("small", {}, counts)];
  }
  return make("button", { class: "item", "data-item": item.id },
    make("span", { class: "item-title", dir: "auto" }, item.title || item.id), make("small", { class: "group" }, [item.title ? item.id : "", withTask ? data.titles[row.task] : ""].filter(Boolean).join(", ")),
    make("span", { class: "marks" }, ...marks));
}

const rightShare = ({ replies }) => {
  const known = replies.filter((reply) => !data.baselines.includes(reply.model)).map(standing).filter((value) => !isNaN(value));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : NaN;
};

// Returns True if a grade by rules has another value under the other scoring.
function readDifferently({ grades }) {
  return grades.some((grade) => grade.scoring === "robust" && !grade.by && grades.some((other) =>
    other.scoring !== "robust" && other.kind === grade.kind && other.criterion === grade.criterion && (other.value !== grade.value || other.outcome !== grade.outcome)));
}

// Questions about an item's replies, each with its text and condition.
const tutorsOf = ({ replies }) => replies.filter((reply) => !data.baselines.includes(reply.model));
const QUESTIONS = {
  apart: ["judge and people differ", ({ replies }) => replies.some((reply) => reply.labels?.some((label) => isUnlikeJudge(reply.grades, label)))],
  readings: ["robust and paper_compat differ", ({ replies }) => replies.some(readDifferently)],
  alone: ["one tutor alone is right", (item) => tutorsOf(item).length > 1 && tutorsOf(item).filter((reply) => outcomeOf(reply) === "right").length === 1],
  wrong: ["all tutors are wrong", (item) => tutorsOf(item).length > 0 && tutorsOf(item).every((reply) => ["wrong", "none"].includes(outcomeOf(reply)))],
  right: ["all tutors are right", (item) => tutorsOf(item).length > 0 && tutorsOf(item).every((reply) => outcomeOf(reply) === "right")],
  unread: ["a value is unread", (item) => tutorsOf(item).some((reply) => reply.grades.some((grade) => grade.why))],
  judges: ["judges differ", ({ replies }) => replies.some((reply) => reply.divided)],
  labelled: ["people have labelled a reply", ({ replies }) => replies.some((reply) => reply.labels)],
};
const longest = (item) => Math.max(0, ...tutorsOf(item).map((reply) => reply.text.length));
const SORTS = {
  "": ["as drawn", null],
  apart: ["most disagreement", (item) => { const share = rightShare(item); return isNaN(share) ? 1 : Math.abs(share - 0.5); }],
  hard: ["hardest", (item) => { const share = rightShare(item); return isNaN(share) ? 2 : share; }],
  long: ["longest reply", (item) => -longest(item)],
};

// Returns the shown items and replies as lines of JSON, as a table, or as a text.
function exported(kind, matches) {
  const records = matches.flatMap(([row, replies]) => replies.map((reply) => ({ ...row.item.fields, task: row.task, id: row.item.id, tutor: reply.model, outcome: outcomeOf(reply), value: gradeOf(reply)?.value ?? null, reply: reply.text, reference: row.item.reference })));
  if (kind === "jsonl") return records.map((record) => JSON.stringify(record) + "\n").join("");
  const columns = [...new Set(records.flatMap(Object.keys))];
  if (kind === "csv") return [columns, ...records.map((record) => columns.map((name) => String(record[name] ?? "")))].map(csvLine).join("");
  const quoted = (text) => text.split("\n").map((line) => "> " + line).join("\n");
  return matches.map(([row, replies]) => [`## ${row.item.id} (${data.titles[row.task]})`, ...Object.entries(row.item.fields ?? {}).map(([name, text]) => `**${inWords(name)}**\n\n${quoted(text)}`), ...replies.map((reply) => `**${data.labels[reply.model]}** (${WORDS[outcomeOf(reply)] || gradeOf(reply)?.value})\n\n${quoted(reply.text)}`), ""].join("\n\n")).join("\n");
}

function part(box, title, text) {
  box.append(make("h3", {}, title), itemText(text));
}

function body(row, replies) {
  const { item } = row;
  const box = make("div");
  const prompted = replies.find((reply) => reply.prompt);
  const messages = prompted ? data.prompts[prompted.prompt] : item.question;
  const fields = Object.entries(item.fields ?? {});
  for (const [name, text] of fields) part(box, inWords(name), text);
  if (messages) box.append(fields.length ? make("details", {}, make("summary", {}, "Prompt with instructions"), conversation(messages)) : conversation(messages));
  for (const address of item.pictures || []) if (address) box.append(make("img", { src: address, alt: "the item's picture", class: "picture" }));
  const beside = make("div", { class: "replies" });
  for (const reply of replies) beside.append(replyBox(row.task, reply, prompted));
  box.append(make("h3", {}, replies.length === 1 ? "Reply" : "Replies"), beside);
  part(box, "Reference", item.reference);
  if (item.leaked) part(box, "Seen by the reward model in training", item.leaked.join("\n"));
  box.append(make("p", { class: "hint" }, `${item.tags} `, make("a", { href: linkTo(row.task, { item: item.id }) }, "link to this item")));
  return box;
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
  const value = grade.value === null ? "no answer" : valueInWords(grade.value);
  const wanted = desired && grade.outcome === "wrong" ? `; desired: ${desired}` : "";
  const right = typeof grade.value === "boolean" || desired ? "" : WORDS[grade.outcome] && grade.value !== null ? `, ${WORDS[grade.outcome]}` : "";
  const by = grade.by ? ` (${data.graders[grade.by] ?? grade.by})` : "";
  return make("span", { class: "chip mark-" + grade.outcome, title: `${inWords(grade.criterion ?? grade.kind)}${by}` }, `${inWords(grade.criterion ?? KINDS[grade.kind] ?? grade.kind)}: ${value}${wanted}${right}`);
}

function verdictOn(grades, criterion) {
  return grades.find((grade) => grade.kind === "judge" && grade.criterion === criterion && grade.value !== null);
}

function isUnlikeJudge(grades, [criterion, label]) {
  const judged = verdictOn(grades, criterion);
  return Boolean(judged) && valueInWords(judged.value).toLowerCase() !== valueInWords(label).toLowerCase();
}

// A person's label of a reply, and whether the judge gave another label.
function labelChip(grades, [criterion, label, annotator]) {
  const judged = verdictOn(grades, criterion);
  const same = judged && !isUnlikeJudge(grades, [criterion, label]);
  const relation = judged ? (same ? ", as the judge" : ", unlike the judge") : "";
  return make("span", { class: "chip of-people" + (judged && !same ? " mark-wrong" : "") }, `${inWords(criterion)}: ${label}${annotator ? ` (${annotator})` : ""}${relation}`);
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
  const box = make("article", {}, make("h4", {}, data.labels[reply.model] + " ", markOf(reply)));
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
  box.append(make("p", { class: "chips" }, ...robust.map((grade) => chip(task, grade))));
  if (reply.labels) box.append(make("p", { class: "chips" }, make("span", { class: "hint" }, "People: "), ...reply.labels.map((label) => labelChip(robust, label))));
  for (const grade of robust) if (grade.reason) box.append(make("p", { class: "reason", dir: "auto" }, `${grade.criterion ? inWords(grade.criterion) + ": " : ""}${grade.reason}`));
  const read = reply.grades.map((g) => make("li", {},
    make("b", {}, `${inWords(g.criterion ?? g.kind)}, ${g.scoring}`), `: ${g.value === null ? "no answer" + (g.why ? " (" + g.why + ")" : "") : valueInWords(g.value)}${WORDS[g.outcome] && g.value !== null ? ", " + WORDS[g.outcome] : ""}`,
    ...(g.raw ? [make("details", {}, make("summary", {}, "passage"), make("pre", { dir: "auto", tabindex: "0" }, g.raw))] : [])));
  box.append(make("details", { class: "read" }, make("summary", {}, "What was read"), make("ul", { class: "grades" }, ...read)));
  if (reply.divided) box.append(make("h5", {}, "Judges differ"), make("ul", {}, ...reply.divided.map((line) => make("li", {}, line))));
  return box;
}

// Shows the items of one task. Without a task, shows those of all tasks if the page contains them, or else of the first.
function browse(place, requested, parameters = {}) {
  const names = Object.keys(data.beside);
  const task = requested && Object.hasOwn(data.titles, requested) ? requested : "";
  if (!names.length) return browser(place, task, parameters);
  const chosen = task || names[0];
  place.replaceChildren(make("p", { class: "hint", role: "status" }, "Loading " + data.titles[chosen] + " …"));
  return loaded(chosen).then(
    () => browser(place, chosen, parameters),
    () => {
      delete loading[chosen];
      const choice = place.dataset.task ? [] : [make("div", { class: "filters" }, taskField(place, chosen))];
      place.replaceChildren(...choice, make("p", { class: "notice failed" }, `The items of this task are not in the page but in ${data.beside[chosen]} beside it. Copy that folder together with the page.`));
    });
}

// The field for the choice of a task on the page of all items.
function taskField(place, task) {
  const names = Object.keys(data.beside).length ? Object.keys(data.beside) : ["", ...Object.keys(data.tasks)];
  const tasks = choice(names.map((name) => [name, name ? data.titles[name] : "all tasks"]), task);
  tasks.addEventListener("input", () => browse(place, tasks.value));
  return make("label", {}, "Task ", tasks);
}

function linkTo(task, parameters) {
  return "#/items?" + new URLSearchParams({ task, ...parameters });
}

// Chips of which one is chosen. Like a select element, the result has a value, and sends "input" when it changes.
function chipChoice(title, options) {
  const group = make("div", { class: "chips", role: "group", "aria-label": title });
  group.value = options[0][0];
  for (const [value, text] of options) {
    const button = make("button", { class: "chip", "aria-pressed": String(value === group.value) }, text);
    button.addEventListener("click", () => {
      group.choose(value);
      group.dispatchEvent(new Event("input"));
    });
    group.append(button);
  }
  group.choose = (value) => {
    group.value = value;
    [...group.children].forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === value)));
  };
  return group;
}

// Filters of items by two tutors' replies, each with its label and condition.
const RELATIONS = {
  "": ["any", () => true],
  first: ["the first tutor is ahead", (a, b) => standing(a) > standing(b)],
  second: ["the second tutor is ahead", (a, b) => standing(b) > standing(a)],
  differ: ["one of the two is ahead", (a, b) => standing(a) > standing(b) || standing(b) > standing(a)],
};

function browser(place, task, parameters) {
  const all = rowsOf(task);
  const replies = all.flatMap((row) => row.item.replies);
  const models = [...new Set(replies.map((reply) => reply.model))];
  const kinds = [...new Set(replies.map(outcomeOf))];
  const named = models.map((name) => [name, data.labels[name]]);
  const known = (name) => (models.includes(name) ? name : "");
  const tutor = choice([["", "all tutors"], ...named], known(parameters.first));
  const other = choice([["", "no other tutor"], ...named], known(parameters.second));
  const relation = choice(Object.entries(RELATIONS).map(([value, [text]]) => [value, text]), parameters.show in RELATIONS ? parameters.show : "");
  const outcome = chipChoice("Outcome", [["", "all outcomes"], ...kinds.map((kind) => [kind, WORDS[kind] || "has a value"])]);
  const asked = Object.entries(QUESTIONS).map(([name, [text, holds]]) => [name, text, all.filter((row) => holds(row.item)).length]).filter(([, , number]) => number);
  const where = choice([["", "any"], ...asked.map(([name, text, number]) => [name, `${text} (${number})`])], asked.some(([name]) => name === parameters.where) ? parameters.where : "");
  const sort = choice(Object.entries(SORTS).map(([name, [text]]) => [name, text]), parameters.sort in SORTS ? parameters.sort : "");
  const leaked = chipChoice("Training", [["", "all items"], ["no", "not leaked"], ["yes", "leaked"]]);
  const search = make("input", { type: "search", placeholder: "search prompt, reply, reference", value: parameters.q ?? "" });
  if (kinds.includes(parameters.outcome)) outcome.choose(parameters.outcome);
  const count = make("span", { class: "hint", role: "status" });
  const items = make("span", { class: "hint" });
  const list = make("div", { class: "list", role: "group", "aria-label": "Items" });
  const reader = make("div", { class: "reader" });
  let limit = PAGE;
  let chosen; // the entry of the item that is shown
  let single = parameters.item;
  let shown = [];
  const field = (text, control) => make("label", {}, text + " ", control);
  const relationField = field("Items where", relation);
  const wordsOf = ({ item }, reply) => [reply.text, item.id, item.tags, item.reference, ...((reply.prompt ? data.prompts[reply.prompt] : item.question) ?? []).map((part) => part[1])];
  const matching = (row) => {
    const { item } = row;
    if (single && item.id !== single) return [];
    if (leaked.value && Boolean(item.leaked) !== (leaked.value === "yes")) return [];
    if (where.value && !QUESTIONS[where.value][1](item)) return [];
    const replyOf = (name) => item.replies.find((reply) => reply.model === name);
    if (tutor.value && other.value && !RELATIONS[relation.value][1](replyOf(tutor.value), replyOf(other.value))) return [];
    const words = search.value.toLowerCase();
    return item.replies.filter((reply) =>
      (!tutor.value || reply.model === tutor.value || reply.model === other.value) &&
      (!outcome.value || outcomeOf(reply) === outcome.value) &&
      (!words || wordsOf(row, reply).some((text) => text.toLowerCase().includes(words))));
  };
  const update = () => {
    relationField.hidden = !(tutor.value && other.value);
    const matches = all.map((row) => [row, matching(row)]).filter(([, rowReplies]) => rowReplies.length);
    const key = SORTS[sort.value][1];
    if (key) matches.sort(([a], [b]) => key(a.item) - key(b.item));
    shown = matches;
    if (!place.dataset.task) {
      const state = { task, first: tutor.value, second: other.value, show: relation.value, where: where.value, sort: sort.value, outcome: outcome.value, q: search.value, item: single ?? "" };
      const query = String(new URLSearchParams(Object.entries(state).filter(([, value]) => value)));
      history.replaceState(null, "", "#/items" + (query ? "?" + query : ""));
    }
    const number = matches.reduce((sum, [, rowReplies]) => sum + rowReplies.length, 0);
    count.textContent = `${number} of ${replies.length} replies`;
    items.replaceChildren(`${matches.length} of ${all.length} items`);
    if (single) {
      const everything = make("button", { class: "plain" }, "show all items");
      everything.addEventListener("click", () => { single = undefined; update(); });
      items.append(" ", everything);
    }
    const entries = matches.slice(0, limit).map(([row, rowReplies]) => entry(row, rowReplies, !task));
    const read = (at) => {
      chosen?.removeAttribute("aria-current");
      chosen = entries[at];
      chosen.setAttribute("aria-current", "true");
      const [row, rowReplies] = matches[at];
      const step = (text, to) => {
        const button = make("button", { class: "more" }, text);
        button.disabled = to < 0 || to >= entries.length;
        button.addEventListener("click", () => { read(to); chosen.scrollIntoView({ block: "nearest" }); });
        return button;
      };
      reader.dataset.item = row.item.id;
      reader.replaceChildren(
        make("div", { class: "reader-head" }, make("h3", { dir: "auto" }, row.item.title || row.item.id), make("span", { class: "hint" }, `${row.item.id}, ${data.titles[row.task]}, ${at + 1} of ${matches.length}`), step("Previous", at - 1), step("Next", at + 1)),
        body(row, rowReplies));
    };
    entries.forEach((button, at) => button.addEventListener("click", () => read(at)));
    list.replaceChildren(...entries);
    reader.replaceChildren();
    if (entries.length) read(0);
    if (single && !list.firstChild) list.append(make("p", { class: "notice" }, `The page does not contain the item ${single} of this task. Raise report.browser_items to include more items.`));
    if (matches.length > limit) {
      const more = make("button", { class: "more" }, "Show more");
      more.addEventListener("click", () => { limit += PAGE; update(); });
      list.append(more);
    }
  };
  for (const control of [tutor, other, relation, where, sort, outcome, leaked, search]) control.addEventListener("input", () => { limit = PAGE; single = undefined; update(); });
  const saving = make("span", { class: "buttons" }, "Save these: ");
  for (const [kind, text] of [["jsonl", "JSON lines"], ["csv", "CSV"], ["md", "Markdown"]]) {
    const button = make("button", { class: "more" }, text);
    button.addEventListener("click", () => save(`items.${kind}`, exported(kind, shown), "text/plain"));
    saving.append(button, " ");
  }
  const fields = place.dataset.task ? [] : [taskField(place, task)];
  const offered = [
    ...(kinds.length > 1 ? [outcome] : []),
    ...(all.some(({ item }) => item.leaked) ? [leaked] : []),
  ];
  place.replaceChildren(
    make("div", { class: "filters" }, ...fields, field("Tutor", tutor), field("beside", other), relationField, field("Question", where), field("Sort by", sort), field("Search", search), ...offered, " ", count, items, saving),
    keysField(), make("div", { class: "panes" }, list, reader));
  update();
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
