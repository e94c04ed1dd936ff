// Charts as inline SVG: lines over time, bars, a heat map. No library; sizes come from the box they are in.
// The box itself takes the focus, so that it stays when the chart is drawn anew: arrow keys go from value to value.

import { clock, h, many, number, s } from "./format.js";

const PAD = { left: 44, right: 12, top: 10, bottom: 20 };
const tip = () => document.getElementById("tip");

/** Round numbers that split [0, most] into two to four parts. */
export function ticks(most) {
  if (!(most > 0)) return [0];
  const rough = most / 3;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * base).find((part) => part >= rough * 0.999);
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += step) found.push(value);
  return found;
}

/** Times that split [from, to] on round clock times. */
export function timeTicks(from, to, most) {
  const minute = 60e3;
  const steps = [5e3, 15e3, 30e3, minute, 5 * minute, 10 * minute, 30 * minute, 60 * minute, 180 * minute, 360 * minute, 1440 * minute];
  let step = steps.find((part) => (to - from) / part <= most) ?? 1440 * minute;
  while ((to - from) / step > most) step *= 2;
  const zone = new Date(to).getTimezoneOffset() * minute;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return found;
}

/** Path through points, broken where a value is null. */
function path(points) {
  let drawing = false;
  let text = "";
  for (const [x, y] of points) {
    if (y === null) { drawing = false; continue; }
    text += `${drawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    if (!drawing) text += `h.01`; // a single point is seen as a dot
    drawing = true;
  }
  return text;
}

/** A small line without axes; `most` is shared between lines that are compared. */
export function spark(box, values, { most, width = 150, height = 34, area = false }) {
  let svg = box.firstElementChild;
  if (!svg) {
    svg = s("svg.spark", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, s("path.area"), s("path.line"));
    box.append(svg);
  }
  const top = most || Math.max(...values.filter((value) => value !== null), 1e-12);
  const points = values.map((value, index) => [
    (index / Math.max(1, values.length - 1)) * (width - 4) + 2,
    value === null ? null : height - 3 - (Math.min(value, top) / top) * (height - 6),
  ]);
  const line = path(points);
  if (svg.dataset.line === line) return;
  svg.dataset.line = line;
  svg.lastElementChild.setAttribute("d", line);
  const drawn = points.filter((point) => point[1] !== null);
  const shape = area && drawn.length ? `M${drawn[0][0]} ${height}${drawn.map(([x, y]) => `L${x.toFixed(1)} ${y.toFixed(1)}`).join("")}L${drawn.at(-1)[0]} ${height}Z` : "";
  svg.firstElementChild.setAttribute("d", shape);
}

/** Lines over time. series: [{name, points: [[ms, value|null]], style, band: [[low, high]|null], notes: [text]}];
 *  still: where lists are still open. */
export function lines(box, { series, from, to, format = number, still, title, label, empty = "no data in this window" }) {
  const top = title ? 24 : PAD.top;
  const { width, height, svg, inner } = frame(box, { top });
  if (title) svg.append(s("text.name", { x: PAD.left, y: 12 }, title));
  const values = series.flatMap((one) => one.points.map((point) => point[1])).filter((value) => value !== null);
  if (!values.length) return blank(box, empty, title ? svg : null, label ?? title);
  const bands = series.flatMap((one) => one.band ?? []).filter(Boolean);
  const most = Math.max(...values, Math.min(Math.max(...bands.map((band) => band[1]), 0), 1.6 * Math.max(...values))) * 1.08 || 1;
  const x = (ms) => PAD.left + ((ms - from) / Math.max(1, to - from)) * inner.width;
  const y = (value) => top + inner.height * (1 - value / most);
  const spanMs = to - from;
  if (still && still < to) {
    const at = Math.max(x(still), PAD.left);
    svg.append(s("rect.open", { x: at, y: top, width: Math.max(0, width - PAD.right - at), height: inner.height }));
    if (width - PAD.right - at > 62) svg.append(s("text.hint", { x: (at + width - PAD.right) / 2, y: PAD.top + 12, "text-anchor": "middle" }, "still open"));
  }
  yAxis(svg, ticks(most), y, width, format);
  for (const at of timeTicks(from, to, Math.max(2, Math.floor(inner.width / 70)))) {
    svg.append(s("text.tick", { x: x(at), y: height - 5, "text-anchor": "middle" }, clock(at, spanMs)));
  }
  series.forEach((one) => one.band && svg.append(s(`path.band.${one.style}`, { d: ribbon(one, x, (value) => Math.max(top, y(value))) })));
  series.forEach((one) => svg.append(s(`path.line.${one.style}`, { d: path(one.points.map(([ms, value]) => [x(ms), value === null ? null : y(value)])) })));
  const last = series[0].points.findLast((point) => point[1] !== null);
  svg.append(s(`circle.dot.${series[0].style}`, { cx: x(last[0]), cy: y(last[1]), r: 3 }));
  const drawn = series[0].points.map((point, index) => index).filter((index) => series[0].points[index][1] !== null);
  const tell = (index) => {
    const [ms, value] = series[0].points[index];
    const rows = series.map((one) => `${one.name} ${format(one.points.find((point) => point[0] === ms)?.[1] ?? null)}`);
    const band = series[0].band?.[index], note = series[0].notes?.[index];
    return { x: x(ms), y: y(value), text: [clock(ms, Math.min(spanMs, 4 * 60e3)), ...rows, ...(band ? [`${format(band[0])} to ${format(band[1])}`] : []), ...(note ? [note] : [])] };
  };
  name(box, `${label ?? title}: last ${format(last[1])}, from ${format(Math.min(...values))} to ${format(Math.max(...values))} between ${clock(from, 1)} and ${clock(to, 1)}`);
  reach(box, svg, inner, drawn.map((index) => () => tell(index)), (px) => {
    const ms = from + ((px - PAD.left) / inner.width) * spanMs;
    return drawn.reduce((best, index, at) => (Math.abs(series[0].points[index][0] - ms) < Math.abs(series[0].points[drawn[best]][0] - ms) ? at : best), 0);
  });
}

/** The area between two lines, broken where there is none. */
function ribbon({ points, band }, x, y) {
  let text = "", run = [];
  const close = () => {
    if (run.length > 1) text += `M${run.map(([ms, , high]) => `${x(ms).toFixed(1)} ${y(high).toFixed(1)}`).join("L")}L${run.reverse().map(([ms, low]) => `${x(ms).toFixed(1)} ${y(low).toFixed(1)}`).join("L")}Z`;
    else for (const [ms, low, high] of run) text += `M${(x(ms) - 1.5).toFixed(1)} ${y(high).toFixed(1)}h3V${y(low).toFixed(1)}h-3Z`;
    run = [];
  };
  points.forEach(([ms], index) => (band[index] ? run.push([ms, ...band[index]]) : close()));
  close();
  return text;
}

/** Bars with lines over them: what was seen by position, against what the model and what its table alone expect. */
export function positions(box, { rate, expected, alone, rows, clicks, model, empty }) {
  const { width, height, svg, inner } = frame(box);
  if (!rate.length) return blank(box, empty, null, "Click rate by position");
  const most = Math.max(...rate, ...expected, ...alone) * 1.1 || 1;
  const step = inner.width / rate.length;
  const x = (index) => PAD.left + (index + 0.5) * step;
  const y = (value) => PAD.top + inner.height * (1 - value / most);
  yAxis(svg, ticks(most), y, width, number);
  const every = Math.ceil(18 / step);
  rate.forEach((value, index) => {
    svg.append(s("rect.bar", { x: x(index) - step * 0.32, y: y(value), width: step * 0.64, height: Math.max(0, PAD.top + inner.height - y(value)) }));
    if (index % every === 0) svg.append(s("text.tick", { x: x(index), y: height - 5, "text-anchor": "middle" }, index + 1));
  });
  const along = (values) => path(values.map((value, index) => [x(index), value === null ? null : y(value)]));
  svg.append(s("path.line.c", { d: along(alone) }), s("path.line.b", { d: along(expected) }));
  expected.forEach((value, index) => value !== null && svg.append(s("circle.ring.b", { cx: x(index), cy: y(value), r: Math.min(3, step / 4) })));
  const tell = (index) => ({ x: x(index), y: y(rate[index]), text: [`position ${index + 1}`, `seen ${number(rate[index])} (${clicks[index]} of ${rows[index]})`, ...(expected.length ? [`${model} ${number(expected[index])}`] : []), ...(alone.length ? [`w alone ${number(alone[index])}`] : [])] });
  name(box, `Click rate by position: ${number(rate[0])} at 1${rate.length > 1 ? `, ${number(rate.at(-1))} at ${rate.length}` : ""}${expected.length ? `; ${model} expects ${number(expected[0])} at 1` : ""}`);
  reach(box, svg, inner, rate.map((_, index) => () => tell(index)), (px) => Math.min(rate.length - 1, Math.max(0, Math.floor((px - PAD.left) / step))));
}

/** A distribution over a logarithmic axis of seconds, with its quantiles. */
export function histogram(box, { title, data, empty, format }) {
  const { width, height, svg, inner } = frame(box, { top: 20 });
  svg.append(s("text.name", { x: PAD.left, y: 11 }, title));
  if (!data) return blank(box, empty, svg, title);
  const from = Math.log10(data.from_s), size = 1 / data.per_decade;
  const low = Math.floor(from), high = Math.max(low + 1, Math.ceil(from + data.counts.length * size));
  const x = (decade) => PAD.left + ((decade - low) / (high - low)) * inner.width;
  const most = Math.max(...data.counts);
  const base = 20 + inner.height;
  data.counts.forEach((value, index) => {
    const at = x(from + index * size), tall = (value / most) * inner.height;
    if (value) svg.append(s("rect.bar", { x: at + 0.5, y: base - tall, width: Math.max(1, x(from + (index + 1) * size) - at - 1), height: tall }));
  });
  svg.append(s("line.axis", { x1: PAD.left, x2: width - PAD.right, y1: base, y2: base }));
  for (let decade = low; decade <= high; decade += Math.ceil((high - low) / Math.max(1, inner.width / 60))) {
    svg.append(s("text.tick", { x: x(decade), y: height - 5, "text-anchor": decade === low ? "start" : decade === high ? "end" : "middle" }, format(10 ** decade)));
  }
  const words = ["p50", "p95", "p99"].map((which) => `${which} ${format(data[which])}`).join(" · ");
  svg.append(s("text.figure", { x: width - PAD.right, y: 11, "text-anchor": "end" }, words));
  for (const which of ["p50", "p95"]) {
    const at = x(Math.log10(data[which]));
    svg.append(s("line.mark", { x1: at, x2: at, y1: 20, y2: base }));
  }
  const tell = (index) => ({ x: x(from + (index + 0.5) * size), y: base - 10, text: [`${format(10 ** (from + index * size))} to ${format(10 ** (from + (index + 1) * size))}`, many(data.counts[index], "time")] });
  name(box, `${title}: ${words}`);
  reach(box, svg, inner, data.counts.map((_, index) => () => tell(index)), (px) => {
    const index = Math.floor((low + ((px - PAD.left) / inner.width) * (high - low) - from) / size);
    return index >= 0 && index < data.counts.length ? index : null;
  });
}

/** The table w[k, k′]: a row per position, a column per last click. Darker is seen more often. */
export function heat(box, { table, cells }) {
  const { width, svg, inner } = frame(box);
  const deep = table.length, wide = Math.max(...table.map((row) => row.length));
  const left = 26, top = 22, side = Math.min((width - left - 8) / wide, (box.clientHeight - top - 6) / deep);
  const cellWidth = wide === 1 ? Math.min(120, width - left - 8) : (width - left - 8) / wide;
  const text = cellWidth >= 24 && side >= 13;
  const every = Math.ceil(14 / Math.min(side, cellWidth));
  const known = new Map((cells ?? []).map(([k, last, rows, clicks]) => [`${k} ${last}`, [rows, clicks]]));
  const all = [];
  table.forEach((row, index) => {
    if (index % every === 0) svg.append(s("text.tick", { x: left - 6, y: top + (index + 0.5) * side + 4, "text-anchor": "end" }, index + 1));
    row.forEach((chance, last) => {
      const seen = known.get(`${index + 1} ${last}`) ?? [0, 0];
      const words = [`position ${index + 1}, ${last ? `last click ${last}` : "no click above"}`, `w ${number(chance)}`, `${seen[0]} rows, click rate ${seen[0] ? number(seen[1] / seen[0]) : "–"}`];
      const cell = s("rect.cell", { x: left + last * cellWidth, y: top + index * side, width: cellWidth - 1, height: side - 1, "fill-opacity": (0.06 + 0.94 * chance).toFixed(3) });
      all.push(() => ({ x: null, at: [left + (last + 0.5) * cellWidth, top + (index + 0.5) * side], text: words }));
      svg.append(cell);
      if (text) svg.append(s(`text.in-cell${chance > 0.7 ? ".on-dark" : ""}`, { x: left + (last + 0.5) * cellWidth, y: top + (index + 0.5) * side + 3.5, "text-anchor": "middle" }, chance.toFixed(2).replace(/^0/, "")));
    });
  });
  name(box, `Chance of being seen, from ${number(Math.min(...table.flat()))} to ${number(Math.max(...table.flat()))} over ${many(deep, "position")}`);
  const first = table.map((row, index) => table.slice(0, index).reduce((sum, one) => sum + one.length, 0));
  reach(box, svg, inner, all, (px, py) => {
    const index = Math.floor((py - top) / side), last = Math.floor((px - left) / cellWidth);
    return index >= 0 && index < deep && last >= 0 && last < table[index].length ? first[index] + last : null;
  });
  const heads = wide === 1 ? ["w"] : Array.from({ length: wide }, (_, last) => (last === 0 ? "none" : last));
  heads.forEach((head, last) => (last % every === 0 || cellWidth > 16) && svg.append(s("text.tick", { x: left + (last + 0.5) * cellWidth, y: 14, "text-anchor": "middle" }, head)));
}

function frame(box, { top = PAD.top } = {}) {
  const width = Math.max(120, box.clientWidth), height = Math.max(60, box.clientHeight);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  box.replaceChildren(svg);
  return { width, height, svg, inner: { width: width - PAD.left - PAD.right, height: height - top - PAD.bottom } };
}

function blank(box, words, keep, label) {
  box.replaceChildren(...(keep ? [keep] : []), h("p.empty", {}, words));
  name(box, `${label}: ${words}`);
  box.values = [];
}

/** Say to who cannot see it what the chart is and what its main figures are. */
function name(box, words) {
  box.setAttribute("role", "img");
  box.setAttribute("tabindex", "0");
  if (box.getAttribute("aria-label") !== words) box.setAttribute("aria-label", words);
}

function yAxis(svg, values, y, width, format) {
  for (const value of values) {
    svg.append(s("line.grid", { x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) }));
    svg.append(s("text.tick", { x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
}

/** Let the pointer and the arrow keys reach each of the values; find(x, y) says which one is under the pointer. */
function reach(box, svg, inner, values, find) {
  const rule = s("line.rule", { y1: PAD.top, y2: PAD.top + inner.height, visibility: "hidden" });
  svg.append(rule);
  Object.assign(box, { values, find, rule });
  if (box.dataset.reached) return;
  box.dataset.reached = "yes";
  box.addEventListener("pointermove", (event) => {
    const corner = box.getBoundingClientRect();
    const index = box.values.length ? box.find(event.clientX - corner.left, event.clientY - corner.top) : null;
    if (index === null) return leave(box);
    point(box, index, event.clientX, event.clientY);
  });
  box.addEventListener("pointerleave", () => leave(box));
  box.addEventListener("blur", () => leave(box));
  box.addEventListener("keydown", (event) => {
    const last = box.values.length - 1, at = box.at ?? last;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") return leave(box);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    box.at = Math.min(last, Math.max(0, to));
    const found = box.values[box.at](), corner = box.getBoundingClientRect();
    point(box, box.at, corner.left + (found.at?.[0] ?? found.x), corner.top + (found.at?.[1] ?? found.y));
    document.getElementById("said").textContent = found.text.join(", ");
  });
}

function point(box, index, x, y) {
  const found = box.values[index]();
  if (found.x !== null) for (const [what, value] of [["x1", found.x], ["x2", found.x], ["visibility", "visible"]]) box.rule.setAttribute(what, value);
  showTip(x, y, found.text);
}

function leave(box) {
  box.rule?.setAttribute("visibility", "hidden");
  hideTip();
}

function showTip(left, top, words) {
  const box = tip();
  box.replaceChildren(...words.map((line, index) => h(index ? "span" : "b", {}, line)));
  box.hidden = false;
  const x = Math.min(left + 14, innerWidth - box.offsetWidth - 8);
  const y = Math.min(top + 14, innerHeight - box.offsetHeight - 8);
  box.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
}

function hideTip() {
  tip().hidden = true;
}
