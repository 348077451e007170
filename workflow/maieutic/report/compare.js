// The comparison of two tutors: their differences as a picture and as a table, with links to the items.
const VERDICTS = ["BETTER", "WORSE", "SAME", "EQUIVALENT", "OPEN"];
const SIGNS = { BETTER: "▲", WORSE: "▼", SAME: "≡", EQUIVALENT: "=", OPEN: "?" };
const PHRASES = { BETTER: "ahead on", WORSE: "behind on", SAME: "the same on", EQUIVALENT: "equivalent on", OPEN: "cannot be told apart on" };
const OPPOSITE = { BETTER: "WORSE", WORSE: "BETTER" };
const EVERYBODY = "*";
const contrastFiles = new Set();
let latestChoice = 0; // number of the latest choice of tutors: a slow file must not overwrite a later choice

// Files beside the page call this function with the rows of one tutor.
function contrasts(tutor, rows) {
  data.compare.rows.push(...rows);
  contrastFiles.add(tutor);
}

// Returns the differences between a tutor and the others, with this tutor as the first.
function rowsFrom(tutor, scoring) {
  const { tutors, tasks, rows } = data.compare;
  const at = tutors.indexOf(tutor);
  const byPair = new Map();
  for (const [first, second, task, value, low, high, decisive, n, clusters, wins, losses, verdict] of rows) {
    if ((first !== at && second !== at) || tasks[task].scoring !== scoring) continue;
    const same = { other: tutors[first === at ? second : first], task: tasks[task], decisive, n, clusters };
    const turned = (number) => (number === null ? null : -number);
    byPair.set(`${same.other} ${task}`, first === at
      ? { ...same, value, low, high, wins, losses, verdict }
      : { ...same, value: turned(value), low: turned(high), high: turned(low), wins: losses, losses: wins, verdict: OPPOSITE[verdict] || verdict });
  }
  return [...byPair.values()];
}

function decimals(value, sign) {
  if (value === null || value === undefined) return "–";
  return (sign && value > 0 ? "+" : "") + value.toFixed(Math.abs(value) < 0.01 && value !== 0 ? 3 : 2);
}

// Returns the text of each name. An addition distinguishes names that have the same text.
function distinct(names, textOf, more) {
  const texts = names.map(textOf);
  return Object.fromEntries(names.map((name, at) => [name, texts.filter((text) => text === texts[at]).length > 1 ? `${texts[at]} (${more(name)})` : texts[at]]));
}

const titleOf = distinct(Object.keys(data.titles), (task) => data.titles[task], (task) => data.names[task.split("/")[0]]);

// A difference with its interval and the margin of equivalence on a scale that all rows share.
function whisker(row, reach) {
  const svg = shape("svg", { class: "whisker difference " + row.verdict.toLowerCase(), viewBox: "0 0 200 12", width: 200, height: 12, "aria-hidden": "true" });
  if (row.value === null) return svg;
  const x = (value) => (100 + (96 * value) / reach).toFixed(1);
  const margin = Math.min(data.equivalence, reach);
  svg.append(shape("rect", { class: "margin", x: x(-margin), y: 1, width: (x(margin) - x(-margin)).toFixed(1), height: 10 }), shape("line", { class: "tick", x1: 100, x2: 100, y1: 0, y2: 12 }));
  if (row.low !== null) svg.append(shape("line", { class: "between", x1: x(row.low), x2: x(row.high), y1: 6, y2: 6 }));
  svg.append(shape("circle", { cx: x(row.value), cy: 6, r: 3.5 }));
  return svg;
}

const reachOf = (rows) => Math.max(data.equivalence, ...rows.flatMap((row) => [row.value, row.low, row.high]).filter((value) => value !== null).map(Math.abs)) || 1;

// The verdicts against all other tutors: a row for each of them, a column for each task.
function matrix(rows) {
  const tasks = [...new Set(rows.map((row) => row.task.task))];
  const others = [...new Set(rows.map((row) => row.other))];
  const head = make("tr", {}, make("th", { class: "name", scope: "col" }, "Against"), ...tasks.map((task) => make("th", { scope: "col" }, titleOf[task])));
  const body = others.map((other) => make("tr", {}, make("th", { class: "name", scope: "row" }, data.labels[other]), ...tasks.map((task) => {
    const row = rows.find((one) => one.other === other && one.task.task === task);
    return row ? make("td", { class: "sign " + row.verdict.toLowerCase(), title: `${row.verdict}: ${decimals(row.value, true)}` }, SIGNS[row.verdict]) : make("td", {}, "–");
  })));
  return make("table", { class: "versus matrix" }, make("thead", {}, head), make("tbody", {}, ...body));
}

function verdict(word) {
  return make("span", { class: "verdict " + word.toLowerCase() }, `${SIGNS[word]} ${word}`);
}

function counted(rows) {
  return VERDICTS.map((word) => [word, rows.filter((row) => row.verdict === word).length]).filter(([, n]) => n);
}

function itemsLink(row, tutor, show, text, title) {
  if (!Object.hasOwn(data.titles, row.task.task) || row.task.scoring !== "robust") return text; // the item browser shows outcomes under the `robust` scoring
  return make("a", { href: linkTo(row.task.task, { first: tutor, second: row.other, show }), title }, text);
}

// Returns the number of items that would decide, or that the task does not have so many.
function deciding(row) {
  if (row.decisive === null) return "–";
  const all = data.sizes[row.task.task];
  return row.decisive > all ? `more than the task has (${all.toLocaleString("en")})` : row.decisive.toLocaleString("en");
}

function cell(text, attributes) {
  return make("td", attributes || {}, text);
}

function tableOf(rows, tutor, withOther) {
  const { tutors } = data.compare;
  const mine = tutors.indexOf(tutor);
  const reach = reachOf(rows);
  const heads = [withOther ? "Against" : "Task", ...(withOther ? ["task"] : []), "metric", withOther ? "this tutor" : data.labels[tutor], withOther ? "the other tutor" : data.labels[rows[0].other], "difference on shared items", "verdict", "items that would decide", "problems", "ahead on"];
  const body = rows.map((row) => {
    const values = row.task.values;
    const ahead = row.wins === null
      ? [itemsLink(row, tutor, "differ", "items that differ", "the items on which one of the two tutors is ahead")]
      : [itemsLink(row, tutor, "first", String(row.wins), `items that only ${data.labels[tutor]} has right`), " : ", itemsLink(row, tutor, "second", String(row.losses), `items that only ${data.labels[row.other]} has right`)];
    return make("tr", {},
      make("th", { class: "name", scope: "row" }, withOther ? data.labels[row.other] : data.titles[row.task.task], ...(withOther ? [] : [make("small", { class: "group" }, data.names[row.task.task.split("/")[0]])])),
      ...(withOther ? [cell(data.titles[row.task.task], { class: "text" })] : []),
      cell(row.task.metric), cell(decimals(values[mine])), cell(decimals(values[tutors.indexOf(row.other)])),
      make("td", {}, make("b", {}, decimals(row.value, true)), make("small", { class: "ci" }, `${decimals(row.low, true)} to ${decimals(row.high, true)}`), whisker(row, reach)),
      make("td", { class: "text verdict-cell" }, verdict(row.verdict)),
      cell(deciding(row)), cell(String(row.clusters)), make("td", {}, ...ahead));
  });
  const head = make("thead", {}, make("tr", {}, ...heads.map((text, at) => make("th", at ? { scope: "col" } : { scope: "col", class: "name" }, text))));
  return make("table", { class: "versus" }, head, make("tbody", {}, ...body));
}

async function contrastRows(tutor) {
  const files = data.compare.beside ?? {};
  if (Object.hasOwn(files, tutor) && !contrastFiles.has(tutor)) await beside(files[tutor]);
}

async function versus(place, parameters) {
  const choiceNumber = ++latestChoice;
  const { tutors, tasks } = data.compare;
  const first = tutors.includes(parameters.first) ? parameters.first : data.leading[0];
  const second = parameters.second === EVERYBODY || (tutors.includes(parameters.second) && parameters.second !== first) ? parameters.second : data.leading.find((name) => name !== first) ?? tutors.find((name) => name !== first);
  const scorings = [...new Set(tasks.map((task) => task.scoring))].reverse();
  const scoring = scorings.includes(parameters.scoring) ? parameters.scoring : scorings[0];
  const named = tutors.map((name) => [name, data.labels[name]]);
  const chosen = {
    first: choice(named, first),
    second: choice([...named.filter(([name]) => name !== first), [EVERYBODY, "all others"]], second),
    scoring: choice(scorings.map((name) => [name, name]), scoring),
  };
  for (const control of Object.values(chosen)) control.addEventListener("input", () => {
    location.hash = "#/compare?" + new URLSearchParams(Object.fromEntries(Object.entries(chosen).map(([name, control]) => [name, control.value])));
  });
  const fields = make("div", { class: "filters" },
    make("label", {}, "Tutor ", chosen.first), make("label", {}, "against ", chosen.second), make("label", {}, "Scoring ", chosen.scoring));
  try {
    await contrastRows(first);
  } catch {
    place.replaceChildren(fields, make("p", { class: "notice failed" }, `The differences of this tutor are not in the page but in ${data.compare.beside[first]} beside it. Copy that folder together with the page.`));
    return;
  }
  if (choiceNumber !== latestChoice) return;
  const all = second === EVERYBODY;
  const order = Object.keys(data.titles);
  const rows = rowsFrom(first, scoring).filter((row) => all || row.other === second)
    .sort((a, b) => order.indexOf(a.task.task) - order.indexOf(b.task.task) || tutors.indexOf(a.other) - tutors.indexOf(b.other));
  const names = [data.labels[first], all ? "all others" : data.labels[second]];
  if (!rows.length) {
    place.replaceChildren(fields, make("p", { class: "notice" }, "No task has replies of both tutors."));
    return;
  }
  const summary = counted(rows).map(([word, n]) => `${PHRASES[word]} ${n}`).join(", ");
  const sentence = make("p", { class: "told", role: "status" }, make("b", {}, names[0]), " against ", make("b", {}, names[1]), `: ${summary}${all ? " of " + rows.length + " comparisons" : rows.length === 1 ? " task" : " tasks"}.`);
  const table = tableOf(rows, first, all);
  const file = `${first}-${all ? "others" : second}-${scoring}`;
  const scroll = (content) => make("div", { class: "scroll", tabindex: "0" }, content);
  const buttons = make("p", { class: "buttons" });
  const picture = all ? matrix(rows) : table;
  place.replaceChildren(fields, sentence, ...(all ? [scroll(picture)] : []), scroll(table), buttons);
  const offers = [
    ["Table as CSV", () => save(file + ".csv", csvOf(table), "text/csv")],
    ["Picture as SVG", () => save(file + ".svg", textOf(pictureOf(picture)), "image/svg+xml")],
    ["as PNG", () => savePng(pictureOf(picture), file + ".png")],
  ];
  for (const [text, act] of offers) {
    const button = make("button", { class: "more" }, text);
    button.addEventListener("click", act);
    buttons.append(button, " ");
  }
}
