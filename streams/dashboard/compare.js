// Who won: each bucket's lift over the control with its bounds, the verdict in words, and what the checks say.

import { count, h, moment, number, percent, s } from "./format.js";

const byId = (id) => document.getElementById(id);
const WIDTH = 240, HEIGHT = 26, EDGE = 6;

export function compare(data) {
  const { rows, checks, notes, control } = data.compare;
  const alarms = checks.filter(([alarm]) => alarm);
  byId("compare-note").textContent = rows.length ? `lift of CTR_sum over ${control}, from ${moment(data.compare.from)} to ${moment(data.compare.to)} · right at every look, 95 %` : "";
  const box = byId("compare");
  const told = JSON.stringify(data.compare);
  if (box.dataset.told === told) return;
  box.dataset.told = told;
  const widest = Math.max(0.02, ...rows.flatMap(([, , , , low, , high]) => [low, high]).filter((bound) => bound !== null).map((bound) => Math.min(Math.abs(bound), 2)));
  box.replaceChildren(
    ...alarms.map(([, words]) => h("p.alarm", { role: "alert" }, words)),
    h("ol.arms", {}, rows.map((row) => arm(row, widest))),
    ...checks.filter(([alarm]) => !alarm).map(([, words]) => h("p.check", {}, words)),
    ...notes.map((words) => h("p.check", {}, words)),
  );
}

function arm([bucket, users, lists, rate, low, estimate, high, verdict], widest) {
  const sure = low > 0 ? "ahead" : high !== null && high < 0 ? "behind" : "open";
  const lift = low === null ? "" : `${signed(low)} to ${signed(high)}`;
  return h(`li.arm.${sure}`, { "data-arm": bucket, title: `${count(users)} users, ${count(lists)} lists` },
    h("h3", {}, bucket),
    h("p.figure", {}, h("b", {}, number(rate)), h("span", {}, " clicks a list")),
    h("div.lift", {}, low === null ? "" : interval(low, estimate, high, widest), h("span", {}, lift)),
    h("p.verdict", {}, verdict));
}

const signed = (value) => (value > 0 ? "+" : "") + percent(value);

/** The bounds as a bar around 0. */
function interval(low, estimate, high, widest) {
  const x = (value) => WIDTH / 2 + (Math.max(-widest, Math.min(widest, value)) / widest) * (WIDTH / 2 - EDGE);
  return s("svg.interval", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
    s("line.zero", { x1: x(0), x2: x(0), y1: 0, y2: HEIGHT }),
    s("rect", { x: x(low), y: HEIGHT / 2 - 4, width: Math.max(2, x(high) - x(low)), height: 8, rx: 3 }),
    s("circle", { cx: x(estimate), cy: HEIGHT / 2, r: 4.5 }));
}
