// Export of pictures: the page's charts, and its tables as they appear on screen.
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
    const file = canvas.toDataURL("image/png");
    if (file.length < 100) alert("This browser cannot create a picture of this size. Save the SVG instead, or show fewer rows.");
    else make("a", { href: file, download: name }).click();
  });
  picture.src = "data:image/svg+xml;base64," + btoa(unescape(encodeURIComponent(textOf(svg))));
}

function shape(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Returns the visible lines of a text with their positions, measured letter by letter because browsers also break words.
function linesOf(node) {
  const range = document.createRange();
  const lines = [];
  let at = 0;
  for (const { segment } of new Intl.Segmenter().segment(node.data)) {
    range.setStart(node, at);
    range.setEnd(node, (at += segment.length));
    const place = range.getBoundingClientRect();
    const line = lines.at(-1);
    if (!place.width || segment === "▸") continue;
    if (!segment.trim()) {
      if (line) line.text += " "; // the space is not part of the line's width: the line may end here
    } else if (line && Math.abs(line.top - place.top) < 2) {
      line.text += segment;
      line.left = Math.min(line.left, place.left);
      line.right = Math.max(line.right, place.right);
    } else lines.push({ text: segment, left: place.left, right: place.right, top: place.top, height: place.height });
  }
  return lines.map((line) => ({ ...line, text: line.text.replace(/ +/g, " ").trim() }));
}

// Returns the background of the word in a traffic light.
function boxOf(badge, at) {
  const [place, style] = [badge.getBoundingClientRect(), getComputedStyle(badge)];
  const { x, y } = at(place);
  const empty = badge.classList.contains("none"); // drawn as a ring
  const ground = empty ? { fill: "none", stroke: style.color } : { fill: style.backgroundColor };
  return shape("rect", { x, y: y.toFixed(1), width: place.width, height: place.height, rx: place.height / 2, ...ground });
}

// Returns a table as it appears on screen, drawn with texts and lines only, so that any program can open it.
function pictureOf(table) {
  const box = table.closest(".scroll");
  if (box) box.scrollTop = box.scrollLeft = 0;
  const frame = table.getBoundingClientRect();
  const [width, height] = [Math.ceil(frame.width) + 16, Math.ceil(frame.height) + 16];
  const at = (place) => ({ x: (place.left - frame.left + 8).toFixed(1), y: place.top - frame.top + 8 });
  const svg = shape("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, "font-family": getComputedStyle(document.body).fontFamily });
  svg.append(shape("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
  for (const row of table.rows) {
    if (row.querySelector(".dt-empty")) continue;
    const place = row.getBoundingClientRect();
    if (!place.height) continue;
    const { x, y } = at(place);
    svg.append(shape("rect", { x, y: y.toFixed(1), width: place.width, height: place.height, fill: getComputedStyle(row).backgroundColor }));
    const line = (y + place.height).toFixed(1);
    svg.append(shape("line", { x1: x, x2: frame.width + 8, y1: line, y2: line, stroke: getComputedStyle(row.cells[0]).borderBottomColor }));
  }
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest(".dt-empty")) continue;
    const style = getComputedStyle(walker.currentNode.parentElement);
    const size = parseFloat(style.fontSize);
    const badge = walker.currentNode.parentElement.closest(".light");
    if (badge) svg.append(boxOf(badge, at));
    const pale = walker.currentNode.parentElement.closest("tr.absent") ? { opacity: 0.65 } : {};
    for (const line of linesOf(walker.currentNode)) {
      const { x, y } = at(line);
      const look = { "font-size": size, "font-weight": style.fontWeight, "font-style": style.fontStyle, fill: style.color, ...pale };
      // Texts keep their length on screen in any other font, and right-to-left letters keep their place.
      const length = { textLength: (line.right - line.left).toFixed(1), lengthAdjust: "spacingAndGlyphs" };
      svg.append(shape("text", { x, y: (y + line.height / 2 + 0.35 * size).toFixed(1), ...length, ...look }, line.text));
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
