// Pictures as files: those of the page, and tables as they are seen.
const SVG = "http://www.w3.org/2000/svg";

function textOf(svg) {
  return new XMLSerializer().serializeToString(svg);
}

function savePng(svg, name) {
  const picture = new Image();
  picture.addEventListener("load", () => {
    const { width, height } = svg.viewBox.baseVal;
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, 2 * width, 2 * height);
    make("a", { href: canvas.toDataURL("image/png"), download: name }).click();
  });
  picture.src = "data:image/svg+xml;base64," + btoa(unescape(encodeURIComponent(textOf(svg))));
}

function shape(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The lines in which a text is seen, each with its place.
function* linesOf(node) {
  const range = document.createRange();
  let line;
  for (const { index, 0: word } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const place = range.getBoundingClientRect();
    if (!place.width) continue;
    if (line && Math.abs(line.place.top - place.top) < 2) line.words.push(word);
    else {
      if (line) yield line;
      line = { place, words: [word] };
    }
  }
  if (line) yield line;
}

// The ground of a light's word.
function boxOf(badge, at) {
  const [place, style] = [badge.getBoundingClientRect(), getComputedStyle(badge)];
  const { x, y } = at(place);
  return shape("rect", { x, y: y.toFixed(1), width: place.width, height: place.height, rx: place.height / 2, fill: style.backgroundColor });
}

// A table as it is seen, by texts and lines alone, so that any program can open it: no page is needed to read it.
function pictureOf(table) {
  const box = table.closest(".scroll");
  if (box) box.scrollTop = box.scrollLeft = 0;
  const frame = table.getBoundingClientRect();
  const [width, height] = [Math.ceil(frame.width) + 16, Math.ceil(frame.height) + 16];
  const at = (place) => ({ x: (place.left - frame.left + 8).toFixed(1), y: place.top - frame.top + 8 });
  const svg = shape("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, "font-family": getComputedStyle(document.body).fontFamily });
  svg.append(shape("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
  for (const row of table.rows) {
    const place = row.getBoundingClientRect();
    if (!place.height) continue;
    const { x, y } = at(place);
    svg.append(shape("rect", { x, y: y.toFixed(1), width: place.width, height: place.height, fill: getComputedStyle(row).backgroundColor }));
    const line = (y + place.height).toFixed(1);
    svg.append(shape("line", { x1: x, x2: frame.width + 8, y1: line, y2: line, stroke: getComputedStyle(row.cells[0]).borderBottomColor }));
  }
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const style = getComputedStyle(walker.currentNode.parentElement);
    const size = parseFloat(style.fontSize);
    const badge = walker.currentNode.parentElement.closest(".light");
    if (badge) svg.append(boxOf(badge, at));
    for (const { place, words } of linesOf(walker.currentNode)) {
      const { x, y } = at(place);
      svg.append(shape("text", { x, y: (y + place.height / 2 + 0.35 * size).toFixed(1), "font-size": size, "font-weight": style.fontWeight, "font-style": style.fontStyle, fill: style.color }, words.join(" ").replace("▸", "").trim()));
    }
  }
  for (const whisker of table.querySelectorAll("svg.whisker")) {
    const place = whisker.getBoundingClientRect();
    if (!place.width) continue;
    const { x, y } = at(place);
    const group = shape("g", { transform: `translate(${x} ${y.toFixed(1)})` });
    for (const part of whisker.children) {
      const style = getComputedStyle(part);
      const copy = part.cloneNode();
      for (const name of ["stroke", "stroke-width", "stroke-dasharray", "fill"]) copy.setAttribute(name, style.getPropertyValue(name));
      copy.removeAttribute("class");
      group.append(copy);
    }
    svg.append(group);
  }
  return svg;
}
