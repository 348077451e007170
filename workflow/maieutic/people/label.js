"use strict";
// One annotator's page. Answers are stored in this browser at once, and leave the browser only as a file.
const data = JSON.parse(document.getElementById("data").textContent);
const place = `maieutic labels ${data.sample} ${data.annotator}`;
const $ = (id) => document.getElementById(id);
const IDLE = 120; // seconds without input after which a unit's clock stops
const AT = "\0at"; // key of the current position; no unit has this name
// Objects keyed by names have no prototype, so that a name such as `constructor` matches only stored entries.
let answers = { __proto__: null }, undone = [], at = 0, seen = performance.now(), alive = performance.now(), store = null, ready = false;
const touched = new Set(); // units answered in this tab; only these are written, so that other tabs' answers are kept

function element(kind, text, ...classes) {
  const node = document.createElement(kind);
  if (text !== undefined) node.textContent = text;
  node.classList.add(...classes.filter(Boolean));
  return node;
}
function notify(text) { $("told").textContent = text; $("told").hidden = !text; }
function answerOf(unit) { return (answers[unit.name] ??= { labels: { __proto__: null }, seconds: 0, comment: "", at: 0 }); }
function touch(unit) { const entry = answerOf(unit); entry.at = Date.now(); touched.add(unit.name); return entry; }
function openCriteria(unit) { return unit.criteria.filter((criterion) => !(criterion.name in answerOf(unit).labels)); }
function finished() { return data.units.filter((unit) => openCriteria(unit).length === 0).length; }

function warnNotStored() { notify("This browser cannot store your answers. Save them to a file before you close the page."); }
// IndexedDB is used because Chromium may show an empty localStorage to a page loaded right after another one.
function openDatabase() {
  return new Promise((resolve) => {
    let request = null;
    try { request = indexedDB.open(place, 1); } catch (error) { resolve(null); return; }
    request.onupgradeneeded = () => request.result.createObjectStore("units");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  });
}
function keep() {
  if (!store) { if (ready) warnNotStored(); return; }
  const change = store.transaction("units", "readwrite"), units = change.objectStore("units");
  for (const name of touched) units.put(answers[name], name);
  units.put(at, AT);
  change.onabort = change.onerror = warnNotStored;
}
function restore() {
  return new Promise((resolve) => {
    if (!store) { resolve(); return; }
    const kept = { __proto__: null }, request = store.transaction("units").objectStore("units").openCursor();
    request.onsuccess = () => {
      const cursor = request.result;
      if (cursor) { kept[cursor.key] = cursor.value; cursor.continue(); return; }
      mergeNewer(valid(kept)); at = Math.min(Math.max(0, kept[AT] | 0), data.units.length - 1);
      resolve();
    };
    request.onerror = () => { warnNotStored(); resolve(); };
  });
}
// Replace answers of this page by newer answers from a file or database. Return the number of units that changed.
function mergeNewer(others) {
  let taken = 0;
  for (const [name, other] of Object.entries(others)) {
    const here = answers[name];
    if (here && Object.keys(here.labels).length && (here.at || 0) >= (other.at || 0)) continue;
    answers[name] = other; taken += 1;
  }
  return taken;
}
// Return the answers in a file or database that belong to this sample and have values on its scales.
function valid(content) {
  const kept = { __proto__: null };
  for (const unit of data.units) {
    const entry = content && Object.hasOwn(content, unit.name) && content[unit.name];
    if (!entry || typeof entry !== "object") continue;
    const labels = { __proto__: null };
    for (const { name, answers: words } of unit.criteria) {
      const value = entry.labels && Object.hasOwn(entry.labels, name) ? entry.labels[name] : undefined;
      if (words.some((word) => word.value === value)) labels[name] = value;
    }
    kept[unit.name] = { labels, seconds: Math.max(0, Number(entry.seconds) || 0), comment: String(entry.comment || "").slice(0, 2000), at: Number(entry.at) || 0 };
  }
  return kept;
}
function clock() {
  const now = performance.now(), until = Math.min(now, alive + 1000 * IDLE);
  if (!document.hidden && until > seen) answerOf(data.units[at]).seconds += (until - seen) / 1000;
  seen = now;
}
// The school: training units show the right label after an answer; the quiz unlocks the sample's units.
const school = data.school || null;
const lessons = school ? school.training.length : 0, gate = school ? lessons + school.quiz.length : 0;
function digest(text) { // FNV-1a, 32 bits, as in school.py
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}
function quizUnits() { return data.units.slice(lessons, gate); }
function quizDone() { return quizUnits().every((unit) => openCriteria(unit).length === 0); }
function quizScore() {
  let right = 0, all = 0;
  for (const unit of quizUnits()) for (const [name, known] of Object.entries(school.digests[unit.name])) {
    all += 1; right += digest(`${unit.name}|${name}|${answerOf(unit).labels[name]}`) === known;
  }
  return { right, all, passed: right >= school.mark * all - 1e-9 };
}
function withQuiz(change) { // change answers, but not those of a finished quiz
  const kept = school && quizDone() ? quizUnits().map((unit) => [unit.name, answerOf(unit)]) : [];
  const changed = change();
  for (const [name, entry] of kept) answers[name] = entry;
  return changed;
}
function lockedFrom() { return school && !(quizDone() && quizScore().passed) ? gate : data.units.length; }
function schoolText() {
  if (!school || at >= gate) return "";
  if (at < lessons) return `Training ${at + 1} of ${lessons}: answer, then read which label is right, and why.`;
  if (!quizDone()) return `Quiz ${at - lessons + 1} of ${gate - lessons}: the sample opens at ${Math.round(100 * school.mark)} % right answers.`;
  const { right, all, passed } = quizScore();
  return passed ? `Quiz: ${right} of ${all} right. You may label the sample now.` : `Quiz: ${right} of ${all} right, fewer than ${Math.round(100 * school.mark)} %. The sample stays closed: save the file, and ask who sent you this page.`;
}
function lesson(unit, name) { // the right label of a training question, once it is answered
  if (!school || at >= lessons || !(name in answerOf(unit).labels)) return null;
  const right = school.right[unit.name][name], good = answerOf(unit).labels[name] === right;
  const reason = (school.reasons[unit.name] || {})[name];
  return element("p", `${good ? "Right" : `The label is “${right}”`}${reason ? `: ${reason}` : "."}`, "lesson", good ? "good" : "bad");
}
function answer(unit, name, value) {
  clock();
  if (school && at >= lessons && at < gate && quizDone()) { show(); return; } // a finished quiz stays as it is
  const labels = touch(unit).labels;
  undone.push([at, name, labels[name]]);
  if (value === undefined) delete labels[name]; else labels[name] = value;
  keep(); meter();
  if (school && at < gate) { const where = window.scrollY; show(); meter(); window.scrollTo(0, where); }
}
function undo() {
  const last = undone[undone.length - 1];
  if (!last || (school && last[0] >= lessons && last[0] < gate && quizDone())) return;
  undone.pop();
  if (last[0] === "file") { withQuiz(() => { answers = valid(last[1]); }); for (const unit of data.units) touch(unit); keep(); go(at); return; }
  const [where, name, before] = last, labels = touch(data.units[where]).labels;
  if (before === undefined) delete labels[name]; else labels[name] = before;
  go(where);
}
function go(where) {
  clock(); at = Math.min(Math.max(0, where), data.units.length - 1);
  if (at >= lockedFrom()) at = gate - 1;
  seen = alive = performance.now();
  keep(); show(); meter();
}
function meter() {
  const done = finished(), all = data.units.length;
  $("progress").textContent = `${done} of ${all} labelled, showing unit ${at + 1}`;
  $("meter").setAttribute("aria-valuemax", all); $("meter").setAttribute("aria-valuenow", done);
  $("meter").firstElementChild.style.width = `${(100 * done) / all}%`;
  $("undo").disabled = undone.length === 0;
  $("back").disabled = at === 0; $("next").disabled = at === all - 1; $("open").disabled = done === all;
  for (const box of $("questions").children) box.classList.toggle("answered", box.dataset.name in answerOf(data.units[at]).labels);
  $("next").disabled ||= at + 1 >= lockedFrom();
  if (school && at < gate) { if (store) notify(schoolText()); else { warnNotStored(); $("told").textContent += ` ${schoolText()}`; } }
  else if (school && $("told").textContent.startsWith("Quiz")) notify("");
  if (done === all) notify("All units are labelled. Save your answers to a file, and send it back.");
}
function show() {
  const unit = data.units[at], content = $("unit"), form = $("questions");
  content.replaceChildren(); form.replaceChildren();
  for (const { title, text, turns } of unit.sections) {
    const part = element("section"); part.append(element("h2", title));
    if (turns) for (const turn of turns) {
      const line = element("div", undefined, "turn", turn.who.toLowerCase()); line.dir = "auto";
      line.append(element("b", turn.who), document.createTextNode(turn.text.trim())); part.append(line);
    } else { const body = element("div", text, "text"); body.dir = "auto"; part.append(body); }
    content.append(part);
  }
  for (const picture of unit.pictures) { const part = element("section"), image = element("img"); image.src = picture; image.alt = "picture of the task"; part.append(image); content.append(part); }
  const pair = element("div", undefined, unit.replies.length > 1 ? "pair" : "");
  unit.replies.forEach((reply, number) => {
    const part = element("section", undefined, "reply"), body = element("div", reply || "(empty response)", "text");
    body.dir = "auto"; part.append(element("h2", unit.replies.length > 1 ? `Response ${number + 1}` : "Response to label"), body); pair.append(part);
  });
  content.append(pair);
  for (const { name, title, question, scoring, answers: words } of unit.criteria) {
    const box = element("fieldset"); box.dataset.name = name; box.append(element("legend", title), element("p", question));
    if (scoring) box.append(element("small", scoring));
    const row = element("div", undefined, "answers");
    for (const { value, shown: word } of words) {
      const label = element("label"), input = element("input");
      input.type = "radio"; input.name = name; input.value = value; input.checked = answerOf(unit).labels[name] === value;
      input.addEventListener("change", () => answer(unit, name, value));
      label.append(input, element("span", word)); row.append(label);
    }
    box.append(row);
    const told = lesson(unit, name);
    if (told) box.append(told);
    form.append(box);
  }
  $("comment").value = answerOf(unit).comment;
  window.scrollTo(0, 0);
}
function save() {
  clock(); keep();
  const file = { format: "maieutic labels 1", sample: data.sample, annotator: data.annotator, version: data.version, finished: finished() === data.units.length, exported: new Date().toISOString(), answers };
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
  link.download = `labels-${data.annotator}.json`; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
async function load(file) {
  let content = null;
  try { content = JSON.parse(await file.text()); } catch (error) { notify(`${file.name} was not saved by this page.`); return; }
  if (!content || content.sample !== data.sample || content.annotator !== data.annotator) { notify(`${file.name} belongs to another sample or annotator. Nothing was loaded.`); return; }
  if (content.version !== data.version) { notify(`${file.name} was labelled with another guideline. Nothing was loaded.`); return; }
  const before = structuredClone(answers), taken = withQuiz(() => mergeNewer(valid(content.answers)));
  for (const name of Object.keys(answers)) touched.add(name);
  undone.push(["file", before]);
  notify(`${taken} of ${data.units.length} units loaded from ${file.name}. Newer answers on this page were kept. Undo restores the answers from before the file was loaded.`);
  keep(); show(); meter();
}
function guideline() {
  const body = $("guideline").lastElementChild;
  for (const part of data.guideline.split("\n\n").filter(Boolean)) body.append(element("p", part));
}
$("who").textContent = `${data.annotator}, sample ${data.sample}, guideline ${data.version}`;
$("undo").addEventListener("click", undo);
$("export").addEventListener("click", save);
$("import").addEventListener("change", (event) => { if (event.target.files[0]) load(event.target.files[0]); event.target.value = ""; });
$("back").addEventListener("click", () => go(at - 1));
$("next").addEventListener("click", () => go(at + 1));
$("open").addEventListener("click", () => { const open = data.units.findIndex((unit) => openCriteria(unit).length); if (open >= 0) go(open); });
$("comment").addEventListener("input", (event) => { touch(data.units[at]).comment = event.target.value; keep(); });
for (const sign of ["pointermove", "keydown", "scroll", "touchstart"]) document.addEventListener(sign, () => { clock(); alive = performance.now(); }, { passive: true });
document.addEventListener("visibilitychange", () => { clock(); seen = performance.now(); keep(); });
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "TEXTAREA") return;
  if (event.key === "z" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); undo(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowRight" && event.target.type !== "radio") go(at + 1);
  else if (event.key === "ArrowLeft" && event.target.type !== "radio") go(at - 1);
  else if (/^[1-9]$/.test(event.key)) {
    const unit = data.units[at], open = openCriteria(unit)[0], word = open && open.answers[Number(event.key) - 1];
    if (word) { answer(unit, open.name, word.value); show(); meter(); }
  }
});
window.addEventListener("beforeunload", () => { clock(); keep(); });
openDatabase().then(async (database) => { store = database; await restore(); if (at >= lockedFrom()) at = gate - 1; guideline(); show(); meter(); ready = true; if (!store) warnNotStored(); });
