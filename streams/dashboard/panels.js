// What each part of the page shows, from the data that app.js keeps.

import { heat, histogram, lines, positions, spark } from "./charts.js";
import { badge, clock, count, glyph, h, moment, number, percent, span, table } from "./format.js";

const byId = (id) => document.getElementById(id);
const busy = (box) => box.matches(":hover") && !byId("tip").hidden; // somebody reads a figure: do not draw under the pointer
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
  ["impressions", 0, "lists shown"], ["clicks", 1, "taps"], ["lists", 6, "joined"],
  ["parameters", 3, "snapshot records"], ["dead-letters", 4, "refused"], ["late-clicks", 5, "too late to count"],
];

export function flow(data) {
  const box = byId("flow");
  if (!box.children.length) {
    box.append(...STREAMS.map(([name, , words]) => h("div.tile", { "data-stream": name }, h("h3", {}, name, h("small", {}, words)), h("p.figure", {}, h("b"), h("span", {}, " a second")), h("div.mini"))));
  }
  STREAMS.forEach(([name, column], index) => {
    const tile = box.children[index];
    tile.querySelector("b").textContent = number(data.rates?.[name]);
    const points = bins(data.flow, column, 0, 2).slice(0, -1).map((point) => point[1]);
    spark(tile.querySelector(".mini"), points, { width: 200, area: true });
  });
}

export function status(data) {
  const { status: found, now } = data;
  const words = byId("status"), notice = byId("notice");
  byId("source").textContent = found.source;
  const kind = !data.connected || found.trouble || found.refused.length ? "bad" : found.waiting || found.behind ? "wait" : "live";
  const said = !data.connected ? "✕ Dashboard away" : found.trouble ? "✕ Log away" : found.refused.length ? "✕ Reading refused" : found.waiting ? "… Connecting" : found.behind ? "… Reading history" : "● Live";
  words.className = kind;
  words.textContent = kind === "live" ? `${said} ${clock(now.log, 1)}` : said;
  const troubles = [];
  if (!data.connected) troubles.push("The dashboard itself does not answer; this page tries again every second.");
  else if (found.trouble) troubles.push(`${found.trouble} Since ${moment(found.trouble_since)}; this page goes on by itself when it is back. What it shows was read before.`);
  if (found.missing.length && found.consumers) troubles.push(`Missing topics: ${found.missing.join(", ")}. Create them: glimpse topics`);
  if (found.refused.length) troubles.push(`Kafka does not let ${found.user || "this user"} read ${found.refused.join(", ")}; give READ and DESCRIBE with kafka-acls.sh, and this page goes on by itself.`);
  notice.hidden = !troubles.length;
  if (notice.textContent !== troubles.join(" ")) notice.textContent = troubles.join(" ");
  const notes = [`lists close ${span(found.wait_s)} after they were shown and take corrections for ${span(found.lateness_s)} more`];
  if (found.missing.length && !found.consumers) notes.push(`not in this archive: ${found.missing.join(", ")}`);
  const skipped = Object.entries(found.skipped).map(([topic, many]) => `${count(many)} of ${topic}`);
  if (skipped.length) notes.push(`too busy to read everything, passed over: ${skipped.join(", ")}`);
  if (found.sampled[0] < found.sampled[1]) notes.push(`events are read from ${found.sampled[0]} of ${found.sampled[1]} partitions`);
  if (found.unreadable) notes.push(`${count(found.unreadable)} records could not be decoded`);
  byId("foot").textContent = notes.join(" · ");
}

export function lag(data) {
  const box = byId("lag");
  const { lag: found, partitions } = data;
  if (!data.status.consumers) return box.replaceChildren(h("p.empty", {}, "An archive has no consumers, so there is no lag to tell."));
  const words = ["records and seconds behind, by partition"];
  const age = found?.at ? span(Math.max(0, data.now.server - found.at) / 1000) : "";
  if (age) words.push(`${age} ago`);
  const trouble = byId("lag-trouble");
  trouble.hidden = !(age && found.trouble);
  box.classList.toggle("old", !trouble.hidden);
  if (!trouble.hidden) trouble.textContent = `As it was ${age} ago. ${found.trouble}`;
  byId("lag-note").textContent = [...words, ...(found?.notes ?? [])].join(" · ");
  if (!found || (!found.groups.length && !found.trouble)) return box.replaceChildren(h("p.empty", {}, "no report yet"));
  if (!found.groups.length) return box.replaceChildren(h("p.empty", {}, `no report: ${found.trouble}`));
  for (const group of found.groups) {
    let part = box.querySelector(`[data-group="${CSS.escape(group.name)}"]`);
    if (!part) {
      part = h("div.group", { "data-group": group.name }, h("h3"), h("div.tiles"), h("div.scroll"));
      box.querySelector("p.empty")?.remove();
      box.append(part);
    }
    const behind = group.lag ? `${count(group.lag)} records, ${span(group.lag_s)} behind` : "nothing waits";
    const members = group.members === null ? "" : `${group.members} ${group.members === 1 ? "member" : "members"}`;
    part.querySelector("h3").replaceChildren(badge(group.verdict), h("b", {}, group.name), h("span", {}, [behind, members, group.reason].filter(Boolean).join(" · ")));
    lagRows(part, [...partitions].filter(([key]) => key.startsWith(`${group.name} `)), data.openPartition);
  }
}

const SEVERITY = ["OK", "WARN", "REWIND", "STALL", "STOP"];
const KEPT_ROWS = 6;

function lagRows(part, rows, open) {
  const tiles = part.querySelector(".tiles");
  const many = rows.length > 2 * KEPT_ROWS;
  if (many) {
    rows.forEach(([key, row], index) => {
      let tile = tiles.children[index];
      if (!tile) {
        tile = h("button", { type: "button" }, h("small"), h("b"));
        tiles.append(tile);
      }
      const [topic, number_] = key.split(" ").slice(-2);
      tile.dataset.partition = key;
      tile.className = `v-${row[0]}`;
      tile.title = `${topic} ${number_}: ${row[0]}, ${row[11]}`;
      tile.setAttribute("aria-pressed", open === key);
      tile.firstChild.textContent = `${topic.replace(/^.*-(?=(impressions|clicks|samples))/, "")[0]}${number_}`;
      tile.lastChild.textContent = row[0] === "OK" ? short(row[1]) : `${glyph(row[0])} ${short(row[1])}`;
    });
    while (tiles.children.length > rows.length) tiles.lastChild.remove();
  } else tiles.replaceChildren();
  const worst = [...rows].sort(([, one], [, other]) => SEVERITY.indexOf(other[0]) - SEVERITY.indexOf(one[0]) || other[1] - one[1]);
  const chosen = many ? [...rows.filter(([key]) => key === open), ...worst.filter(([key]) => key !== open).slice(0, KEPT_ROWS)] : rows;
  const heads = ["partition", "verdict", "lag", "behind", "in/s", "out/s", "caught up in", "kept for", "why"];
  table(part.querySelector(".scroll"), heads, chosen.map(([key, row]) => {
    const [verdict, lagging, lagS, rateIn, rateOut, catchUp, kept, , , lost, transaction, reason] = row;
    const more = [transaction === null ? "" : `a transaction is open for ${span(transaction)}`, lost ? `${count(lost)} lost` : ""].filter(Boolean).join("; ");
    const name = key.split(" ").slice(-2);
    return {
      key,
      class: key === open ? "is-open" : "",
      cells: [`${name[0]} ${name[1]}`, badge(verdict), count(lagging), lagging ? span(lagS) : "–", number(rateIn), number(rateOut), lagging ? span(catchUp) : "–", kept === null ? "always" : span(kept), h("span.why", { title: reason }, more ? `${reason}; ${more}` : reason)],
    };
  }), (row) => row.key);
}

const short = (value) => (value >= 10000 ? `${(value / 1000).toPrecision(3)}k` : String(value));

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
    lists.textContent = [`${count(row.shown)} lists`, row.algorithm === row.name ? "" : row.algorithm].filter(Boolean).join(" · ");
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
  if (about.same_table === false) facts.push("▲ the snapshot was learned with another examination table");
  const words = facts.filter(Boolean).join(" · ");
  const box = byId("chosen");
  if (box.dataset.words !== about.name + words) {
    box.dataset.words = about.name + words;
    box.replaceChildren(h("h2", {}, "Bucket ", h("b", {}, about.name)), h("p", {}, words));
  }
}

export function rates(data) {
  const column = data.buckets.findIndex(([name]) => name === data.chosen?.name);
  if (column < 0) return;
  const lists = bins(data.ctr, column, LISTS, 2);
  const still = data.now.log - data.status.wait_s * 1000;
  const newest = data.status.newest;
  const empty = newest && newest < data.ctr.from ? `the newest list was shown ${span((data.now.log - newest) / 1000)} ago; choose a longer window` : "no lists in this window yet";
  const common = { from: data.ctr.from, to: data.ctr.to, still: data.window === "all" ? null : still, empty };
  const draw = (id, field, name, format) => {
    if (!busy(byId(id))) lines(byId(id), { ...common, format, series: [{ name, style: "a", points: ratio(bins(data.ctr, column, field, 2), lists) }] });
  };
  draw("ctr-sum", CLICKS, "clicks a list", number);
  draw("ctr-set", CLICKED, "lists with a click", percent);
}

export function detail(data) {
  const found = data.positions_of;
  const legend = [h("i.key.a"), "seen", ...(found?.expected ? [h("i.key.b"), "w·θᵀx"] : []), ...(data.table ? [h("i.key.c"), "w alone"] : [])];
  byId("positions-note").replaceChildren(...(found ? legend : []));
  if (!busy(byId("positions"))) {
    const rates = (clicks) => (clicks ? found.rows.map((rows, index) => (rows ? clicks[index] / rows : null)) : []);
    positions(byId("positions"), { rate: found ? rates(found.clicks).map((value) => value ?? 0) : [], expected: rates(found?.expected), alone: data.table && found ? rates(found.alone) : [], rows: found?.rows, clicks: found?.clicks, empty: "no samples of this bucket yet" });
  }
  byId("heat-note").textContent = data.table ? (data.table[0].length === 1 && data.table.at(-1).length === 1 ? "w by position" : "w by position ↓ and last click →") : "";
  const without = data.chosen?.configured === false ? "the settings do not name this bucket, so its table is not known" : `${data.chosen?.algorithm ?? "this algorithm"} has no table: every row counts as seen`;
  if (!busy(byId("heat"))) heat(byId("heat"), { table: data.table, cells: data.cells, empty: without });
  const delays = data.delays ?? {};
  byId("delays-note").textContent = delays.followed < 1 ? `clicks of one list in ${Math.round(1 / delays.followed)}` : "";
  if (!busy(byId("click-delay"))) histogram(byId("click-delay"), { name: "shown → clicked", data: delays.click, format: span, empty: "no click was met with its list yet" });
  if (!busy(byId("join-delay"))) histogram(byId("join-delay"), { name: "shown → joined", data: delays.join, format: span, empty: "no samples yet" });
  const moves = data.moves;
  const pairs = (values) => (values ?? []).map((value, index) => [moves.at[index], value]);
  const common = { from: moves?.at[0], to: Math.max(moves?.at.at(-1) ?? 0, (moves?.at[0] ?? 0) + 1000), empty: "no snapshot yet" };
  if (!busy(byId("moved"))) lines(byId("moved"), { ...common, title: "‖θ − θ before‖", empty: moves ? "one snapshot so far" : common.empty, series: [{ name: "‖Δθ‖", style: "a", points: pairs(moves?.moved) }] });
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

export function fresh(data) {
  const box = byId("fresh");
  const order = new Map(data.buckets.map(([name], index) => [name, index]));
  const rows = [...data.fresh].sort(([one], [other]) => (order.get(one) ?? 1e9) - (order.get(other) ?? 1e9));
  if (!rows.length) return box.replaceChildren(h("p.empty", {}, "No click has come round yet: it takes a click, a snapshot with it, and a list ranked by that."));
  const longest = Math.max(...rows.map(([, row]) => row.slice(0, 4).reduce((sum, part) => sum + (part ?? 0), 0)));
  table(box, ["bucket", "the way of a click", "joined", "learned", "published", "served", "in all", "95 %", "stale lists"], rows.map(([name, row]) => {
    const [joined, learned, published, served, all, most, clicks, waiting, waitingS, lists, stale, unranked] = row;
    const note = [`${count(clicks)} clicks came round`, waiting ? `${count(waiting)} wait, the longest for ${span(waitingS)}` : "", `${count(lists)} lists ranked by a model`, unranked ? `${count(unranked)} by none` : ""].filter(Boolean).join("; ");
    return { key: name, cells: [h("span", { title: note, "data-same": name + note }, name), way(row.slice(0, 4), longest), span(joined), span(learned), span(published), span(served), h("b", { "data-same": String(all) }, span(all)), span(most), stale === null ? "–" : percent(stale)] };
  }), (row) => row.key);
}
