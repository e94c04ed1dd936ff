// What each part of the page shows, from the data that app.js keeps.

import { heat, histogram, lines, positions, spark } from "./charts.js";
import { clock, count, h, many, moment, number, percent, span, table } from "./format.js";

export { compare } from "./compare.js";
export { lag } from "./lag.js";

const byId = (id) => document.getElementById(id);
const busy = (box) => (box.matches(":hover") || box === document.activeElement) && !byId("tip").hidden; // somebody reads a figure: do not draw under the pointer
const LISTS = 0, CLICKS = 1, CLICKED = 2;

/** Sums of one column and field over every `join` bins of a timeline: [[ms, sum]] from old to new. */
function bins(timeline, column, field, join = 1) {
  const found = [];
  for (let bin = timeline.first; bin <= timeline.last; bin += join) {
    let sum = 0;
    for (let part = bin; part < bin + join; part++) sum += timeline.bins.get(part)?.[column * timeline.fields + field] ?? 0;
    found.push([(bin + join / 2) * timeline.width, sum]);
  }
  return found;
}

/** One timeline over another; the newest bin is left out while it holds but a few of its lists. */
function ratio(over, under) {
  const last = under.findLastIndex((point) => point[1] > 0);
  const partial = last > 0 && under[last][1] < 0.25 * under[last - 1][1];
  return over.map(([ms, value], index) => [ms, under[index][1] > 0 && !(partial && index === last) ? value / under[index][1] : null]);
}
const total = (points) => points.reduce((sum, point) => sum + point[1], 0);

const STREAMS = [
  ["impressions", 0, "lists shown", "Offsets that the topic has grown by"], ["clicks", 1, "taps", "Offsets that the topic has grown by"],
  ["lists", 6, "joined", "Lists joined for the first time, without corrections"], ["parameters", 3, "snapshot records", "Records read"],
  ["dead-letters", 4, "refused", "Records read"], ["late-clicks", 5, "too late to count", "Offsets that the topic has grown by, the markers of transactions too"],
];
/** "1 of 6 read" for what stands for more than itself. */
const sampled = (share) => (share > 0.99 ? "" : share > 0.6 ? `${percent(share)} read` : `1 of ${number(Math.round(1 / share))} read`);

export function flow(data) {
  const box = byId("flow");
  if (!box.children.length) {
    box.append(...STREAMS.map(([name, , words, title]) => h("div.tile", { "data-stream": name, title }, h("h3", {}, name, h("small", {}, words)), h("p.figure", {}, h("b"), h("span", {}, " a second")), h("div.mini"))));
  }
  STREAMS.forEach(([name, column], index) => {
    const tile = box.children[index];
    const still = !data.status.consumers; // an archive has no now: what counts is how much there is
    tile.querySelector("b").textContent = still ? count(total(bins(data.flow, column, 0))) : number(data.rates?.[name]);
    tile.querySelector(".figure span").textContent = still ? (data.window === "all" ? " in all" : " in this window") : " a second";
    if (name === "lists") tile.querySelector("small").textContent = ["joined", sampled(data.status.share)].filter(Boolean).join(" · ");
    const points = bins(data.flow, column, 0, 2).slice(0, -1).map((point) => point[1]);
    spark(tile.querySelector(".mini"), points, { width: 200, area: true });
  });
}

export function status(data) {
  const { status: found, now } = data;
  const words = byId("status"), notice = byId("notice");
  const away = !data.connected;
  const states = [
    [data.denied === 403, "bad", "✕ Not let in"], [away, "bad", "✕ Dashboard away"], [found?.trouble, "bad", "✕ Log away"],
    [found?.refused.length, "bad", "✕ Reading refused"], [found?.waiting, "wait", "… Connecting"], [found?.behind, "wait", "… Reading history"],
    [!found?.consumers, "still", "■ Archive"], [true, "live", "● Live"],
  ];
  const [, kind, said] = states.find(([holds]) => holds);
  words.className = kind;
  if (words.textContent !== said) words.textContent = said;
  byId("clock").textContent = kind === "live" ? clock(now.log, 1) : kind === "still" ? `up to ${moment(now.log)}` : "";
  const troubles = [];
  if (data.denied === 403) troubles.push("This page's token is no longer right, as after a restart. Open the address that glimpse dashboard has printed.");
  else if (data.denied === 503) troubles.push("The dashboard is there, but has no place left for this page; close others. This page tries again.");
  else if (away) troubles.push("The dashboard itself does not answer; this page tries again every second.");
  else if (found.trouble) troubles.push(`${found.trouble} Since ${moment(found.trouble_since)}; this page goes on by itself when it is back. What it shows was read before.`);
  if (found) {
    byId("source").textContent = found.source;
    if (found.missing.length && found.consumers) troubles.push(`Missing topics: ${found.missing.join(", ")}. Create them: glimpse topics`);
    if (found.refused.length) troubles.push(`Kafka does not let ${found.user || "this user"} read ${found.refused.join(", ")}; give READ and DESCRIBE with kafka-acls.sh, and this page goes on by itself.`);
    for (const [part, [why, at]] of Object.entries(found.broken)) troubles.push(`Of ${part} not all could be shown (${why}, ${clock(at, 1)}); everything else goes on.`);
    byId("foot").textContent = notes(found).join(" · ");
  }
  notice.hidden = !troubles.length;
  if (notice.textContent !== troubles.join(" ")) notice.textContent = troubles.join(" ");
}

function notes(found) {
  const all = [`lists close ${span(found.wait_s)} after they were shown and take corrections for ${span(found.lateness_s)} more`];
  if (found.missing.length && !found.consumers) all.push(`not in this archive: ${found.missing.join(", ")}`);
  if (sampled(found.share)) all.push(`too busy to read all samples: ${sampled(found.share)}, and counted for all`);
  if (sampled(found.history_share)) all.push(`of the time before this dashboard was started, ${sampled(found.history_share)}, and counted for all`);
  const skipped = Object.entries(found.skipped).map(([topic, some]) => `${count(some)} of ${topic}`);
  if (skipped.length) all.push(`passed over: ${skipped.join(", ")}`);
  if (found.sampled[0] < found.sampled[1]) all.push(`events are read from ${found.sampled[0]} of ${found.sampled[1]} partitions`);
  if (found.unreadable) all.push(`${many(found.unreadable, "record")} could not be decoded`);
  return all;
}

export function letters(data) {
  const rows = [...data.letters].map(([key, row]) => ({ key, row })).sort((one, other) => other.row[2] - one.row[2]);
  const sum = rows.reduce((all, { row }) => all + row[2], 0);
  byId("letters-note").textContent = rows.length ? `${count(sum)} for ${rows.length} ${rows.length === 1 ? "reason" : "reasons"}` : "";
  const box = byId("letters");
  if (!rows.length) return box.replaceChildren(h("p.empty", {}, "Nothing was refused."));
  box.querySelector("p.empty")?.remove();
  const most = rows[0].row[2];
  const old = new Map([...box.children].map((one) => [one.dataset.reason, one]));
  rows.forEach(({ key, row: [topic, text, many, , last] }, index) => {
    let line = old.get(key);
    old.delete(key);
    if (!line) line = h("button.reason", { type: "button", "data-reason": key }, h("b"), h("span.text"), h("small"), h("i.bar", { "aria-hidden": "true" }));
    if (box.children[index] !== line) box.insertBefore(line, box.children[index] ?? null);
    line.children[0].textContent = count(many);
    line.children[1].textContent = text;
    line.children[2].textContent = `${topic} · ${span((data.now.log - last) / 1000)} ago`;
    line.children[3].style.width = `${Math.max(2, (100 * many) / most)}%`;
  });
  for (const gone of old.values()) gone.remove();
}

export function buckets(data) {
  const box = byId("buckets");
  const made = new Map([...box.children].map((card) => [card.dataset.bucket, card]));
  byId("filter").hidden = data.buckets.length <= 12;
  const wanted = byId("filter").value.trim().toLowerCase();
  const rows = data.buckets.map(([name, algorithm], column) => {
    const lists = bins(data.ctr, column, LISTS, 4), clicks = bins(data.ctr, column, CLICKS, 4), clicked = bins(data.ctr, column, CLICKED, 4);
    const shown = total(lists);
    return { name, algorithm, column, shown, ctr: shown ? total(clicks) / shown : null, set: shown ? total(clicked) / shown : null, points: ratio(clicks, lists).map((point) => point[1]) };
  });
  const most = Math.max(...rows.flatMap((row) => row.points.filter((value) => value !== null)), 1e-9) * 1.05;
  const order = { name: (row) => row.column, ctr: (row) => -(row.ctr ?? -1), lists: (row) => -row.shown }[byId("sort").value];
  const shown = rows.filter((row) => `${row.name} ${row.algorithm}`.toLowerCase().includes(wanted)).sort((one, other) => order(one) - order(other));
  shown.forEach((row, index) => {
    let card = made.get(row.name);
    made.delete(row.name);
    if (!card) card = h("button.card", { type: "button", "data-bucket": row.name }, h("h3"), h("p.figure", {}, h("b"), h("span")), h("div.mini"), h("p.lists"));
    if (box.children[index] !== card) box.insertBefore(card, box.children[index] ?? null);
    card.setAttribute("aria-pressed", row.name === data.chosen?.name);
    card.title = `${row.name}: ${row.algorithm}`;
    const [name, figure, mini, lists] = card.children;
    name.textContent = row.name;
    figure.firstChild.textContent = number(row.ctr);
    figure.lastChild.textContent = row.set === null ? "" : ` · set ${percent(row.set)}`;
    lists.textContent = [many(row.shown, "list"), sampled(data.status.share), row.algorithm === row.name ? "" : row.algorithm].filter(Boolean).join(" · ");
    spark(mini, row.points, { most });
  });
  for (const gone of made.values()) gone.remove();
  if (!data.buckets.length) box.replaceChildren(h("p.empty", {}, "No bucket is configured and none was met in the log."));
}

export function chosen(data) {
  const about = data.chosen;
  if (!about?.name) return byId("chosen").replaceChildren();
  const facts = [about.algorithm, about.dim ? `d = ${about.dim}` : "", about.positions ? `K = ${about.positions}` : ""];
  if (about.ridge !== undefined) facts.push(`λ = ${number(about.ridge)}`, `φ′ = ${number(about.phi)}`, `α = ${about.alpha ?? "the theorem's"}`);
  if (!about.configured) facts.push("not in the settings");
  if (!data.table) facts.push(about.weighed ? "its examination table is not in the settings, so nothing is expected of it here" : about.algorithm ? "no examination table: every row counts as seen" : "");
  if (about.same_table === false) facts.push("▲ the snapshot was learned with another examination table");
  const words = facts.filter(Boolean).join(" · ");
  const box = byId("chosen");
  if (box.dataset.words !== about.name + words) {
    box.dataset.words = about.name + words;
    box.replaceChildren(h("h2", {}, "Bucket ", h("b", {}, about.name)), h("p", {}, words));
  }
}

/** Where chance alone may put a rate of so many lists, 95 times of 100: Wilson's interval, or Poisson's for clicks. */
function interval(rate, lists, whole) {
  if (rate === null || !(lists > 0)) return null;
  const z = 1.96, two = (z * z) / lists;
  if (!whole) return [Math.max(0, rate + two / 2 - z * Math.sqrt(rate / lists + (two / lists) / 4)), rate + two / 2 + z * Math.sqrt(rate / lists + (two / lists) / 4)];
  const middle = (rate + two / 2) / (1 + two), wide = (z * Math.sqrt((rate * (1 - rate)) / lists + two / (4 * lists))) / (1 + two);
  return [Math.max(0, middle - wide), Math.min(1, middle + wide)];
}

export function rates(data) {
  const column = data.buckets.findIndex(([name]) => name === data.chosen?.name);
  if (column < 0) return;
  const lists = bins(data.ctr, column, LISTS, 2);
  const still = data.now.log - data.status.wait_s * 1000;
  const newest = data.status.newest;
  const empty = newest && newest < data.ctr.from ? `the newest list was shown ${span((data.now.log - newest) / 1000)} ago; choose a longer window` : "no lists in this window yet";
  const common = { from: data.ctr.from, to: data.ctr.to, still: data.window === "all" ? null : still, empty };
  const draw = (id, field, name, format, label) => {
    if (busy(byId(id))) return;
    const points = ratio(bins(data.ctr, column, field, 2), lists);
    const band = points.map(([, value], index) => interval(value, lists[index][1] * data.status.share, field === CLICKED));
    lines(byId(id), { ...common, format, label, series: [{ name, style: "a", points, band, notes: lists.map(([, some]) => many(some, "list")) }] });
  };
  draw("ctr-sum", CLICKS, "clicks a list", number, "Clicks a list");
  draw("ctr-set", CLICKED, "lists with a click", percent, "Lists with a click");
}

export function detail(data) {
  const found = data.positions_of;
  const model = data.chosen?.weighed ? "w·θᵀx" : "θᵀx";
  const alone = data.table && found?.alone;
  const legend = [h("i.key.a"), "seen", ...(found?.expected ? [h("i.key.b"), model] : []), ...(alone ? [h("i.key.c"), "w alone"] : [])];
  byId("positions-note").replaceChildren(...(found ? legend : []));
  if (!busy(byId("positions"))) {
    const rates = (clicks) => (clicks ? found.rows.map((rows, index) => (rows ? clicks[index] / rows : null)) : []);
    positions(byId("positions"), { rate: found ? rates(found.clicks).map((value) => value ?? 0) : [], expected: rates(found?.expected), alone: alone ? rates(alone) : [], rows: found?.rows, clicks: found?.clicks, model, empty: "no samples of this bucket yet" });
  }
  byId("heat-panel").hidden = !data.table;
  document.querySelector("main").classList.toggle("no-table", !data.table);
  if (data.table) {
    byId("heat-note").textContent = data.table.at(-1).length === 1 ? "w by position" : "w by position ↓ and last click →";
    if (!busy(byId("heat"))) heat(byId("heat"), { table: data.table, cells: data.cells });
  }
  const delays = data.delays ?? {};
  byId("delays-note").textContent = delays.followed < 1 ? `clicks of one list in ${Math.round(1 / delays.followed)}` : "";
  if (!busy(byId("click-delay"))) histogram(byId("click-delay"), { title: "shown → clicked", data: delays.click, format: span, empty: "no click was met with its list yet" });
  if (!busy(byId("join-delay"))) histogram(byId("join-delay"), { title: "shown → joined", data: delays.join, format: span, empty: "no samples yet" });
  const moves = data.moves;
  const pairs = (values) => (values ?? []).map((value, index) => [moves.at[index], value]).filter(([at]) => at >= from);
  const first = moves?.at[0] ?? 0, all = data.window === "all";
  const from = all ? first : Math.max(first, data.ctr.from);
  const common = { from, to: Math.max(all ? moves?.at.at(-1) ?? 0 : data.now.log, from + 1000), empty: moves ? "no snapshot in this window" : "no snapshot yet" };
  if (!busy(byId("moved"))) lines(byId("moved"), { ...common, title: "‖θ − θ before‖", empty: moves?.count === 1 ? "one snapshot so far" : common.empty, series: [{ name: "‖Δθ‖", style: "a", points: pairs(moves?.moved) }] });
  if (!busy(byId("norm"))) lines(byId("norm"), { ...common, title: "‖θ‖", series: [{ name: "‖θ‖", style: "b", points: pairs(moves?.norm) }] });
}

export function snapshots(data) {
  const box = byId("snapshots");
  const order = new Map(data.buckets.map(([name], index) => [name, index]));
  const rows = [...data.snapshots].sort(([one], [other]) => order.get(one) - order.get(other));
  if (!rows.length) return box.replaceChildren(h("p.empty", {}, "No snapshot was published yet. Start a learner: glimpse learn"));
  table(box, ["bucket", "version", "age", "lists", "‖θ‖", "moved", "state"], rows.map(([name, [version, published, lists, norm, moved, hash]]) => ({
    key: name,
    cells: [name, version, span(Math.max(0, data.now.log - published) / 1000), count(lists), number(norm), number(moved), h("code", {}, hash)],
  })), (row) => row.key);
}

const STAGES = ["clicked → joined", "joined → learned", "learned → published", "published → served"];

/** The way of a click as one bar, its four parts as long as they took. */
function way(parts, longest) {
  const known = parts.map((part) => part ?? 0);
  const all = known.reduce((sum, part) => sum + part, 0);
  const words = STAGES.map((stage, index) => `${stage} ${span(parts[index])}`).join(", ");
  const bar = h("span.way", { role: "img", "aria-label": words, title: words }, known.map((part, index) => h(`i.s${index}`)));
  bar.style.width = `${longest ? Math.max(3, (100 * all) / longest) : 0}%`;
  known.forEach((part, index) => (bar.children[index].style.flexGrow = part));
  return h("span.track", { "data-same": words + longest }, bar);
}

const SLOW_S = 60;

export function fresh(data) {
  const box = byId("fresh"), legend = byId("fresh-legend");
  const order = new Map(data.buckets.map(([name], index) => [name, index]));
  const rows = [...data.fresh].sort(([one], [other]) => (order.get(one) ?? 1e9) - (order.get(other) ?? 1e9));
  const { since, share, tolerance_s: forgiven } = data.freshness ?? {};
  const words = ["medians of the clicks that came round", since ? `since ${data.status.consumers ? clock(since, 1) : moment(since)}` : "", share < 1 ? `one click in ${number(Math.round(1 / share))} is followed` : ""];
  const told = rows.some(([, row]) => row[9] > 0);
  const untold = "the lists do not say which snapshot has ranked them (ranked_by), so the way back is not known";
  byId("fresh-note").textContent = !rows.length ? "of the way clicked → joined → learned → published → first served" : told ? words.filter(Boolean).join(", ") : untold;
  legend.hidden = !rows.length;
  if (!rows.length) return box.replaceChildren(h("p.empty", {}, "No click has come round yet: it takes a click, a snapshot with it, and a list ranked by that."));
  if (!legend.children.length) legend.replaceChildren(...STAGES.flatMap((stage, index) => [h(`i.key.s${index}`), stage]), h("span", {}, ` · stale: ranked by a θ that was replaced more than ${span(forgiven)} before`));
  const longest = Math.max(...rows.map(([, row]) => row.slice(0, 4).reduce((sum, part) => sum + (part ?? 0), 0)));
  table(box, ["bucket", "in all", "95 %", "stale lists", "waiting", "the way of a click", "joined", "learned", "published", "served"], rows.map(([name, row]) => {
    const [joined, learned, published, served, all, most, clicks, waiting, waitingS, lists, stale, unranked] = row;
    const note = [`${many(clicks, "click")} came round`, `${many(lists, "list")} ranked by a known model`, unranked ? `${count(unranked)} by none` : ""].filter(Boolean).join("; ");
    const slow = waiting && waitingS > Math.max(SLOW_S, 3 * (most ?? 0));
    const wait = waiting ? `${slow ? "▲ " : ""}${count(waiting)}, ${span(waitingS)}` : "–";
    return { key: name, cells: [h("span", { title: note, "data-same": name + note }, name), h("b", { "data-same": String(all) }, span(all)), span(most), stale === null ? "–" : percent(stale), h(slow ? "span.slow" : "span", { title: "clicks that are joined and not served yet, and the longest wait", "data-same": wait }, wait), way(row.slice(0, 4), longest), span(joined), span(learned), span(published), span(served)] };
  }), (row) => row.key);
}
