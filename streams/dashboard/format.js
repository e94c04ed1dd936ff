// Numbers, times and elements: how everything on the page is written.

const THIN = "\u202f";
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number in three or so digits: 0.0312, 4.75, 128, 12,400, 3.2 M. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9) return (value / 1e9).toPrecision(3) + THIN + "G";
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + THIN + "M";
  if (size >= 100) return plain.format(value);
  if (size >= 0.001) return String(Number(value.toPrecision(3)));
  return value.toExponential(1);
}

/** So many things: 1 record, 2 records. */
export const many = (value, thing) => `${count(value)} ${thing}${value === 1 ? "" : "s"}`;

export const count = (value) => (value >= 1e7 ? number(value) : plain.format(value));
export const percent = (value) =>
  value === null || value === undefined || !Number.isFinite(value) ? "–" : String(Number((100 * value).toPrecision(3))) + THIN + "%";

/** A span in the unit that fits: 0.4 s, 12 s, 4.2 min, 3.1 h, 2.4 d. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const size = Math.abs(seconds);
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [unit, name] of units) {
    if (size >= unit * (unit === 60 ? 2 : 1.5)) return (seconds / unit).toFixed(size >= unit * 10 ? 0 : 1) + THIN + name;
  }
  return (size >= 10 ? seconds.toFixed(0) : seconds.toFixed(1)) + THIN + "s";
}

const pad = (value) => String(value).padStart(2, "0");

/** A time of day, with seconds for short spans and with the day for long ones. */
export function clock(ms, spanMs = 0) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  if (spanMs > 5 * 86400e3) return day;
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  if (spanMs > 26 * 3600e3) return `${day.slice(5)} ${time}`;
  return spanMs && spanMs < 5 * 60e3 ? `${time}:${pad(at.getSeconds())}` : time;
}
export const moment = (ms) => (ms ? `${clock(ms, 6 * 86400e3)} ${clock(ms, 1)}` : "–");

/** Make an element: h("p.note", {title: "…"}, "text", child). Text is always text, never markup. */
export function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  return fill(made, attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";
export function s(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const made = document.createElementNS(SVG, tag);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  return fill(made, attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Status is a glyph and a word; colour only repeats it. */
const GLYPHS = { OK: "✓", WARN: "▲", REWIND: "↺", STALL: "‖", STOP: "✕" };
export const glyph = (verdict) => GLYPHS[verdict] ?? "?";
export const badge = (verdict) => h(`span.badge.v-${verdict}`, {}, h("i", { "aria-hidden": "true" }, glyph(verdict)), verdict);

/** Put new rows into a table, keeping focus and scroll: cells are only touched when their text changes. */
export function table(box, heads, rows, key) {
  let made = box.querySelector("table");
  if (!made || made.dataset.heads !== heads.join()) {
    made = h("table", { "data-heads": heads.join() }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody"));
    box.replaceChildren(made);
  }
  const body = made.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach((row, index) => {
    const name = String(key(row));
    let line = old.get(name);
    old.delete(name);
    if (!line) line = h("tr", { "data-key": name }, row.cells.map(() => h("td")));
    if (body.rows[index] !== line) body.insertBefore(line, body.rows[index] ?? null);
    line.className = row.class ?? "";
    row.cells.forEach((cell, at) => {
      const place = line.cells[at];
      const text = cell instanceof Node ? cell.dataset.same ?? cell.outerHTML : String(cell);
      if (place.dataset.text === text) return;
      place.dataset.text = text;
      place.replaceChildren(cell);
    });
  });
  for (const line of old.values()) line.remove();
  return made;
}
