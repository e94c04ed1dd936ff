// Keeps what the server has sent, asks for another view, and lets each panel draw what has changed.

import { h } from "./format.js";
import { openReason } from "./letters.js";
import * as panels from "./panels.js";

const WINDOWS = { "5m": "5 min", "30m": "30 min", "2h": "2 h", "24h": "24 h", all: "All" };
const TABLES = ["snapshots", "letters", "partitions", "fresh"];
const RENAMED = { positions: "positions_of" };

const data = { connected: false, denied: 0, window: "30m", buckets: [], openPartition: null };
for (const name of TABLES) data[name] = new Map();
const wish = new URLSearchParams(location.hash.slice(1));
let stream = null;

function connect() {
  stream?.close();
  const window = wish.get("window") in WINDOWS ? wish.get("window") : "";
  let first = true;
  const mine = new EventSource(`events?${new URLSearchParams({ window, bucket: wish.get("bucket") ?? "" })}`);
  stream = mine;
  mine.onmessage = (event) => {
    if (stream !== mine) return;
    if (first) for (const name of TABLES) data[name] = new Map();
    first = false;
    data.connected = true;
    data.denied = 0;
    draw(take(JSON.parse(event.data)));
  };
  mine.onerror = async () => {
    if (stream !== mine) return;
    data.connected = false;
    first = true; // the server begins anew with whoever comes back
    const answer = await fetch("icon.svg", { cache: "no-store" }).catch(() => null);
    if (stream !== mine || data.connected) return;
    data.denied = answer?.status === 403 ? 403 : answer?.ok && mine.readyState === EventSource.CLOSED ? 503 : 0;
    panels.status(data);
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => stream === mine && connect(), data.denied ? 5000 : 1000);
  };
}

// A browser has few connections to one server: a page that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  stream?.close();
  stream = null;
});

/** Take a message into the data; return which sections have changed. */
function take(news) {
  for (const [name, found] of Object.entries(news)) {
    if (name === "ctr" || name === "flow") takeBins(name, found);
    else if (TABLES.includes(name)) takeRows(data[name], found);
    else data[RENAMED[name] ?? name] = found.is;
  }
  if (data.status.window !== data.window) {
    data.window = data.status.window;
    mark();
  }
  for (const name of ["ctr", "flow"]) frame(data[name]);
  return new Set(Object.keys(news));
}

function takeRows(rows, { set, gone = [] }) {
  for (const key of gone) rows.delete(key);
  for (const [key, row] of Object.entries(set)) rows.set(key, row);
}

function takeBins(name, { width, count, fields, bins, new: fresh }) {
  if (fresh || !data[name]) data[name] = { bins: new Map() };
  Object.assign(data[name], { width, count, fields });
  for (const [bin, values] of bins) data[name].bins.set(bin, values);
}

/** Say which time a timeline shows: up to the log's now, or all that it has. */
function frame(timeline) {
  if (!timeline) return;
  const known = [...timeline.bins.keys()];
  if (data.window === "all") {
    timeline.first = known.length ? Math.min(...known) : 0;
    timeline.last = known.length ? Math.max(...known) : 0;
  } else {
    timeline.last = Math.floor(data.now.log / timeline.width);
    timeline.first = timeline.last - timeline.count + 1;
    for (const bin of known) if (bin < timeline.first) timeline.bins.delete(bin);
  }
  timeline.first -= timeline.first % 4; // bins are joined in twos and fours, always the same ones
  timeline.from = timeline.first * timeline.width;
  timeline.to = data.window === "all" ? (timeline.last + 1) * timeline.width : Math.max(data.now.log, timeline.from + 1);
}

function draw(changed) {
  const any = (...names) => names.some((name) => changed.has(name));
  document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
  const wanted = {
    status: true, compare: any("compare"), flow: true, lag: true, letters: any("letters", "now"), buckets: any("ctr", "buckets", "chosen"), chosen: any("chosen"),
    rates: true, detail: any("positions", "table", "cells", "delays", "moves", "chosen"), snapshots: true, fresh: true,
  };
  for (const [name, now] of Object.entries(wanted)) {
    try {
      if (now) panels[name](data);
    } catch (error) {
      console.error(`${name} cannot be drawn`, error); // the others can
    }
  }
}

function choose(changes) {
  for (const [name, value] of Object.entries(changes)) wish.set(name, value);
  history.replaceState(null, "", `#${wish}`);
  mark();
  connect();
}

function mark() {
  const chosen = wish.get("window") in WINDOWS ? wish.get("window") : data.window;
  for (const button of document.querySelectorAll("#windows button")) button.setAttribute("aria-pressed", button.dataset.window === chosen);
}

document.getElementById("windows").append(...Object.entries(WINDOWS).map(([name, words]) => h("button", { type: "button", "data-window": name, onclick: () => choose({ window: name }) }, words)));
document.getElementById("buckets").addEventListener("click", (event) => {
  const card = event.target.closest("[data-bucket]");
  if (card) choose({ bucket: card.dataset.bucket });
});
document.getElementById("letters").addEventListener("click", (event) => {
  const line = event.target.closest("[data-reason]");
  if (line) openReason(line.dataset.reason);
});
document.getElementById("lag").addEventListener("click", (event) => {
  const tile = event.target.closest("[data-partition]");
  if (!tile) return;
  data.openPartition = data.openPartition === tile.dataset.partition ? null : tile.dataset.partition;
  panels.lag(data);
});
for (const id of ["filter", "sort"]) document.getElementById(id).addEventListener("input", () => panels.buckets(data));
let resized;
new ResizeObserver(() => {
  clearTimeout(resized);
  resized = setTimeout(() => data.status && draw(new Set(["buckets", "chosen", "positions", "lag"])), 120);
}).observe(document.body);
mark();
connect();
