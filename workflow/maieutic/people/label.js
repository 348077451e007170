"use strict";
// One annotator's page: all that is answered is kept in this browser at once, and leaves it as a file only.
const data = JSON.parse(document.getElementById("data").textContent);
const place = `maieutic labels ${data.sample} ${data.annotator}`;
const $ = (id) => document.getElementById(id);
const IDLE = 120; // seconds without a sign of life after which a unit's clock stands still
const AT = "\0at"; // no unit has this name
// By names of others, `constructor` among them: objects without a prototype hold what was put into them alone.
let answers = { __proto__: null }, undone = [], at = 0, seen = performance.now(), alive = performance.now(), store = null, ready = false;
const touched = new Set(); // the units that were answered in this tab: another tab's are not written by it

function made(kind, text, ...classes) {
  const node = document.createElement(kind);
  if (text !== undefined) node.textContent = text;
  node.classList.add(...classes.filter(Boolean));
  return node;
}
function tell(text) { $("told").textContent = text; $("told").hidden = !text; }
function of(unit) { return (answers[unit.name] ??= { labels: { __proto__: null }, seconds: 0, comment: "", at: 0 }); }
function touch(unit) { const one = of(unit); one.at = Date.now(); touched.add(unit.name); return one; }
function left(unit) { return unit.criteria.filter((one) => !(one.name in of(unit).labels)); }
function finished() { return data.units.filter((unit) => left(unit).length === 0).length; }

function lost() { tell("This browser keeps nothing: save to a file before you close the page."); }
// A database and not localStorage, which Chromium may show empty to a page that was loaded a moment after another one.
function opened() {
  return new Promise((resolve) => {
    let request = null;
    try { request = indexedDB.open(place, 1); } catch (error) { resolve(null); return; }
    request.onupgradeneeded = () => request.result.createObjectStore("units");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  });
}
function keep() {
  if (!store) { if (ready) lost(); return; }
  const change = store.transaction("units", "readwrite"), units = change.objectStore("units");
  for (const name of touched) units.put(answers[name], name);
  units.put(at, AT);
  change.onabort = change.onerror = lost;
}
function restore() {
  return new Promise((resolve) => {
    if (!store) { resolve(); return; }
    const kept = { __proto__: null }, request = store.transaction("units").objectStore("units").openCursor();
    request.onsuccess = () => {
      const cursor = request.result;
      if (cursor) { kept[cursor.key] = cursor.value; cursor.continue(); return; }
      take(known(kept)); at = Math.min(Math.max(0, kept[AT] | 0), data.units.length - 1);
      resolve();
    };
    request.onerror = () => { lost(); resolve(); };
  });
}
// Take over what is later than what is here. Returns how many units that were.
function take(given) {
  let taken = 0;
  for (const [name, one] of Object.entries(given)) {
    const here = answers[name];
    if (here && Object.keys(here.labels).length && (here.at || 0) >= (one.at || 0)) continue;
    answers[name] = one; taken += 1;
  }
  return taken;
}
// Of what a file or the browser holds, what this sample asks.
function known(given) {
  const kept = { __proto__: null };
  for (const unit of data.units) {
    const one = given && Object.hasOwn(given, unit.name) && given[unit.name];
    if (!one || typeof one !== "object") continue;
    const labels = { __proto__: null };
    for (const { name, answers: words } of unit.criteria) {
      const value = one.labels && Object.hasOwn(one.labels, name) ? one.labels[name] : undefined;
      if (words.some((word) => word.value === value)) labels[name] = value;
    }
    kept[unit.name] = { labels, seconds: Math.max(0, Number(one.seconds) || 0), comment: String(one.comment || "").slice(0, 2000), at: Number(one.at) || 0 };
  }
  return kept;
}
function clock() {
  const now = performance.now(), until = Math.min(now, alive + 1000 * IDLE);
  if (!document.hidden && until > seen) of(data.units[at]).seconds += (until - seen) / 1000;
  seen = now;
}
function answer(unit, name, value) {
  clock();
  const labels = touch(unit).labels;
  undone.push([at, name, labels[name]]);
  if (value === undefined) delete labels[name]; else labels[name] = value;
  keep(); meter();
}
function undo() {
  const last = undone.pop();
  if (!last) return;
  if (last[0] === "file") { answers = known(last[1]); for (const unit of data.units) touch(unit); keep(); go(at); return; }
  const [where, name, before] = last, labels = touch(data.units[where]).labels;
  if (before === undefined) delete labels[name]; else labels[name] = before;
  go(where);
}
function go(where) {
  clock(); at = Math.min(Math.max(0, where), data.units.length - 1); seen = alive = performance.now();
  keep(); show(); meter();
}
function meter() {
  const done = finished(), all = data.units.length;
  $("progress").textContent = `${done} of ${all} labelled, this is number ${at + 1}`;
  $("meter").setAttribute("aria-valuemax", all); $("meter").setAttribute("aria-valuenow", done);
  $("meter").firstElementChild.style.width = `${(100 * done) / all}%`;
  $("undo").disabled = undone.length === 0;
  $("back").disabled = at === 0; $("next").disabled = at === all - 1; $("open").disabled = done === all;
  for (const box of $("questions").children) box.classList.toggle("answered", box.dataset.name in of(data.units[at]).labels);
  if (done === all) tell("All are labelled. Save to a file, and send it back.");
}
function show() {
  const unit = data.units[at], shown = $("unit"), form = $("questions");
  shown.replaceChildren(); form.replaceChildren();
  for (const { title, text, turns } of unit.sections) {
    const part = made("section"); part.append(made("h2", title));
    if (turns) for (const turn of turns) {
      const line = made("div", undefined, "turn", turn.who.toLowerCase()); line.dir = "auto";
      line.append(made("b", turn.who), document.createTextNode(turn.text.trim())); part.append(line);
    } else { const body = made("div", text, "text"); body.dir = "auto"; part.append(body); }
    shown.append(part);
  }
  for (const picture of unit.pictures) { const part = made("section"), image = made("img"); image.src = picture; image.alt = "a picture of the task"; part.append(image); shown.append(part); }
  const pair = made("div", undefined, unit.replies.length > 1 ? "pair" : "");
  unit.replies.forEach((reply, number) => {
    const part = made("section", undefined, "reply"), body = made("div", reply || "(nothing)", "text");
    body.dir = "auto"; part.append(made("h2", unit.replies.length > 1 ? `Response ${number + 1}` : "The response to label"), body); pair.append(part);
  });
  shown.append(pair);
  for (const { name, title, question, scoring, answers: words } of unit.criteria) {
    const box = made("fieldset"); box.dataset.name = name; box.append(made("legend", title), made("p", question));
    if (scoring) box.append(made("small", scoring));
    const row = made("div", undefined, "answers");
    for (const { value, shown: word } of words) {
      const label = made("label"), input = made("input");
      input.type = "radio"; input.name = name; input.value = value; input.checked = of(unit).labels[name] === value;
      input.addEventListener("change", () => answer(unit, name, value));
      label.append(input, made("span", word)); row.append(label);
    }
    box.append(row); form.append(box);
  }
  $("comment").value = of(unit).comment;
  window.scrollTo(0, 0);
}
function save() {
  clock(); keep();
  const file = { format: "maieutic labels 1", sample: data.sample, annotator: data.annotator, version: data.version, finished: finished() === data.units.length, exported: new Date().toISOString(), answers };
  const link = made("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
  link.download = `labels-${data.annotator}.json`; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
async function load(file) {
  let given = null;
  try { given = JSON.parse(await file.text()); } catch (error) { tell(`${file.name} is no file of this page.`); return; }
  if (!given || given.sample !== data.sample || given.annotator !== data.annotator) { tell(`${file.name} is of another sample or of somebody else: nothing was loaded.`); return; }
  if (given.version !== data.version) { tell(`${file.name} is of another guideline: nothing was loaded.`); return; }
  const before = structuredClone(answers), taken = take(known(given.answers));
  for (const name of Object.keys(answers)) touched.add(name);
  undone.push(["file", before]);
  tell(`${taken} of ${data.units.length} taken from ${file.name}; what was answered here later stays. Undo takes it back.`);
  keep(); show(); meter();
}
function guideline() {
  const body = $("guideline").lastElementChild;
  for (const part of data.guideline.split("\n\n").filter(Boolean)) body.append(made("p", part));
}
$("who").textContent = `${data.annotator}, sample ${data.sample}, guideline ${data.version}`;
$("undo").addEventListener("click", undo);
$("export").addEventListener("click", save);
$("import").addEventListener("change", (event) => { if (event.target.files[0]) load(event.target.files[0]); event.target.value = ""; });
$("back").addEventListener("click", () => go(at - 1));
$("next").addEventListener("click", () => go(at + 1));
$("open").addEventListener("click", () => { const open = data.units.findIndex((unit) => left(unit).length); if (open >= 0) go(open); });
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
    const unit = data.units[at], open = left(unit)[0], word = open && open.answers[Number(event.key) - 1];
    if (word) { answer(unit, open.name, word.value); show(); meter(); }
  }
});
window.addEventListener("beforeunload", () => { clock(); keep(); });
opened().then(async (database) => { store = database; await restore(); guideline(); show(); meter(); ready = true; if (!store) lost(); });
