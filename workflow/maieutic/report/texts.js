// Texts of tutors and items with their formulas and layout. Every digit and operator of the raw text survives, or the raw
// text is shown. Texts become nodes through textContent only.
let markdown;
let rawTexts = false;

// A formula between \( \), \[ \] or $$ $$; between single dollars only with a backslash, ^ or _ and no digit behind.
const TEX = /\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$\$([\s\S]+?)\$\$|\$(?=\S)([^$\n]*[\\^_][^$\n]*)(?<=\S)\$(?!\d)/g;
const BOLD = /(?<![\w*])\*\*(?=\S)([^*\n]*\S)\*\*(?![\w*])/g;
const HELD = /\ue000(\d+)\ue001/g; // place of a formula in a text for Markdown
const signsOf = (text) => text.replace(/[^\d+\-*/=<>%^]/g, "");
const digitsOf = (text) => text.replace(/\D/g, "");

function loadTexts() {
  if (!window.temml) document.head.append(make("script", {}, document.getElementById("texts").textContent));
  markdown ??= window.markdownit({ html: false, linkify: false }).disable([
    "table", "blockquote", "hr", "reference", "html_block", "lheading", "code", "strikethrough", "emphasis", "link", "image",
    "autolink", "html_inline", "entity", "escape",
  ]);
}

// Returns a formula as MathML, or its raw text if a digit would be lost.
function formula(raw, tex, block) {
  const place = make("span", { class: "formula" });
  try {
    window.temml.render(tex, place, { displayMode: block, throwOnError: true, trust: false });
  } catch {
    return raw;
  }
  for (const part of place.querySelectorAll("[style]")) part.removeAttribute("style");
  if (digitsOf(place.textContent) !== digitsOf(tex)) return raw;
  place.dataset.raw = raw;
  return place;
}

function pieces(text, pattern, make) {
  const parts = [];
  let place = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(place, match.index), make(match));
    place = match.index + match[0].length;
  }
  return [...parts, text.slice(place)];
}

const formulaOf = (match) => formula(match[0], match[1] ?? match[2] ?? match[3] ?? match[4], match[1] !== undefined || match[3] !== undefined);

function rawOf(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  return node.dataset?.raw ?? [...node.childNodes].map(rawOf).join("");
}

// Returns a box with a text whose formulas are set; `laidOut` fills it with the nodes.
function checked(text, laidOut) {
  const box = make("div", { class: "rich", dir: "auto" });
  try {
    loadTexts();
    box.append(...laidOut());
  } catch (error) {
    console.warn(error);
    return make("pre", { dir: "auto", tabindex: "0" }, text);
  }
  return signsOf(rawOf(box)) === signsOf(text) ? box : make("pre", { dir: "auto", tabindex: "0" }, text);
}

// A text of an item: its line breaks, and its formulas.
function itemText(text) {
  if (rawTexts) return make("pre", { dir: "auto", tabindex: "0" }, text);
  return checked(text, () => pieces(text, TEX, formulaOf));
}

// A reply: formulas, and the layout of Markdown. A single * or _ is never emphasis: it may be a product or an index.
function replyText(text) {
  if (rawTexts || /[\ue000\ue001]/.test(text)) return make("pre", { dir: "auto", tabindex: "0" }, text);
  return checked(text, () => {
    const held = [];
    const source = text.replace(TEX, (...match) => { held.push(formulaOf(match)); return `\ue000${held.length - 1}\ue001`; });
    const words = (part) => pieces(part, BOLD, (match) => {
      const bold = make("b", {}, ...pieces(match[1], HELD, ([, at]) => held[at]));
      bold.dataset.raw = "**" + rawOf(bold) + "**";
      return bold;
    }).flatMap((piece) => (typeof piece === "string" ? pieces(piece, HELD, ([, at]) => held[at]) : [piece]));
    return blocks(markdown.parse(source, {}), words, (code) => code.replace(HELD, (_, at) => (held[at].dataset ? held[at].dataset.raw : held[at])));
  });
}

const BLOCKS = { paragraph_open: ["p"], heading_open: ["p", "heading"], list_item_open: ["div", "item-of-list"], bullet_list_open: ["div"], ordered_list_open: ["div"] };

function blocks(tokens, words, whole) {
  const root = make("div");
  const open = [root];
  for (const token of tokens) {
    const at = open.at(-1);
    if (token.hidden) continue; // the paragraph of a list without blank lines
    if (token.nesting < 0) open.pop();
    else if (token.type === "fence") at.append(make("pre", { tabindex: "0" }, whole(token.content)));
    else if (token.type === "inline") {
      for (const part of token.children) {
        if (part.type === "code_inline") at.append(make("code", {}, whole(part.content)));
        else if (part.type === "softbreak" || part.type === "hardbreak") at.append(make("br"));
        else at.append(...words(part.content));
      }
    } else {
      const [tag, name] = BLOCKS[token.type] ?? ["div"];
      const block = make(tag, name ? { class: name } : {});
      if (token.type === "list_item_open") block.append(`${token.info}${token.markup} `);
      at.append(block);
      open.push(block);
    }
  }
  return [...root.childNodes];
}
