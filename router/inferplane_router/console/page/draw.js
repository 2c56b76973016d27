// Words, numbers, elements and line charts: what every part of the page is made of.

export const at = (id) => document.getElementById(id);
export const seconds = (value) =>
  value == null ? "–" : value < 0.001 ? `${(value * 1e6).toFixed(0)} µs` : value < 1 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} s`;
export const percent = (value) => (value == null ? "–" : `${(Math.floor(value * 1000) / 10).toFixed(1)} %`);
export const count = (value) => (value ?? 0).toLocaleString("en");
export const clock = (moment) => new Date(moment * 1000).toLocaleTimeString([], { hour12: false });
export const short = (worker) => worker.split("/").pop();

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// ---------------------------------------------------------------- charts

const SVG = "http://www.w3.org/2000/svg";
export function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text != null) made.textContent = text;
  return made;
}

const WIDTH = 400, HEIGHT = 120, LEFT = 38, TOP = 9, BOTTOM = 16;

export function chart(place, moments, lines, { least = 0, most, limit, marks = [], label = count }) {
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": place.previousElementSibling.textContent });
  const values = lines.flatMap(([, value]) => moments.map(value)).filter((it) => it != null);
  const top = most ?? Math.max(1, ...values);
  const began = moments.length ? moments[0].at : 0, ended = moments.length ? moments.at(-1).at : 1;
  const x = (moment) => LEFT + ((moment - began) / Math.max(1, ended - began)) * (WIDTH - LEFT - 4);
  const y = (value) => TOP + (1 - (value - least) / (top - least)) * (HEIGHT - BOTTOM - TOP);
  for (const level of [least, (least + top) / 2, top]) {
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(level), y2: y(level) }), draw("text", { x: LEFT - 4, y: y(level) + 3, "text-anchor": "end" }, label(level)));
  }
  if (limit != null) svg.append(draw("line", { class: "limit", x1: LEFT, x2: WIDTH, y1: y(limit), y2: y(limit) }));
  for (const mark of marks.filter((it) => it.at >= began && it.at <= ended)) {
    const line = draw("line", { class: "mark", x1: x(mark.at), x2: x(mark.at), y1: TOP, y2: HEIGHT - BOTTOM });
    line.append(draw("title", {}, `${clock(mark.at)}: ${mark.text}`));
    svg.append(line);
  }
  for (const [style, value] of lines) {
    let path = "", pen = false;
    for (const moment of moments) {
      const found = value(moment);
      if (found == null) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${x(moment.at).toFixed(1)} ${y(Math.max(least, found)).toFixed(1)}`;
      if (!pen) path += "h0.01";
      pen = true;
    }
    svg.append(draw("path", { class: style, d: path }));
  }
  if (moments.length > 1) {
    svg.append(draw("text", { x: LEFT, y: HEIGHT - 3 }, clock(began)), draw("text", { x: WIDTH - 2, y: HEIGHT - 3, "text-anchor": "end" }, clock(ended)));
  }
  place.replaceChildren(svg);
}
