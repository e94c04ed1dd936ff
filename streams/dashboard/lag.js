// Consumer lag: groups with their verdicts, partitions, and why some are not well.

import { badge, clock, count, glyph, h, many, number, span, table } from "./format.js";

const byId = (id) => document.getElementById(id);
const OLD_S = 15;

export function lag(data) {
  const box = byId("lag");
  const { lag: found, partitions } = data;
  if (!data.status.consumers) return box.replaceChildren(h("p.empty", {}, "An archive has no consumers, so there is no lag to tell."));
  const plain = (words) => (data.status.prefix ? words.replaceAll(data.status.prefix, "") : words);
  const seconds = found?.at ? Math.max(0, data.now.server - found.at) / 1000 : 0;
  byId("lag-age").textContent = found?.at ? `as of ${clock(found.at, 1)}, ${span(seconds)} ago` : "";
  byId("lag-age").classList.toggle("aged", seconds > OLD_S);
  const trouble = byId("lag-trouble");
  trouble.hidden = !(found?.at && found.trouble);
  box.classList.toggle("old", !trouble.hidden);
  if (!trouble.hidden) trouble.textContent = `As it was ${span(seconds)} ago. ${found.trouble}`;
  byId("lag-note").textContent = (found?.notes ?? []).join(" · ");
  if (!found || (!found.groups.length && !found.trouble)) return box.replaceChildren(h("p.empty", {}, "no report yet"));
  if (!found.groups.length) return box.replaceChildren(h("p.empty", {}, `no report: ${found.trouble}`));
  for (const group of found.groups) {
    let part = box.querySelector(`[data-group="${CSS.escape(group.name)}"]`);
    if (!part) {
      part = h("div.group", { "data-group": group.name }, h("h3"), h("div.tiles"), h("div.scroll"), h("div.whys"));
      box.querySelector("p.empty")?.remove();
      box.append(part);
    }
    const behind = group.lag ? `${many(group.lag, "record")}, ${span(group.lag_s)} behind` : "nothing waits";
    const members = group.members === null ? "" : many(group.members, "member");
    const why = group.verdict === "OK" ? "" : plain(group.reason);
    part.querySelector("h3").replaceChildren(badge(group.verdict), h("b", {}, group.name), h("span", {}, [behind, members, why].filter(Boolean).join(" · ")));
    lagRows(part, [...partitions].filter(([key]) => key.startsWith(`${group.name} `)), data.openPartition, plain);
  }
}

const SEVERITY = ["OK", "WARN", "REWIND", "STALL", "STOP"];
const KEPT_ROWS = 6;

function lagRows(part, rows, open, plain) {
  const tiles = part.querySelector(".tiles");
  const crowded = rows.length > 2 * KEPT_ROWS;
  if (crowded) {
    rows.forEach(([key, row], index) => {
      let tile = tiles.children[index];
      if (!tile) {
        tile = h("button", { type: "button" }, h("small"), h("b"));
        tiles.append(tile);
      }
      const [topic, number_] = key.split(" ").slice(-2);
      tile.dataset.partition = key;
      tile.className = `v-${row[0]}`;
      tile.title = `${plain(topic)} ${number_}: ${row[0]}, ${plain(row[11])}`;
      tile.setAttribute("aria-pressed", open === key);
      tile.firstChild.textContent = `${plain(topic)[0]}${number_}`;
      tile.lastChild.textContent = row[0] === "OK" ? short(row[1]) : `${glyph(row[0])} ${short(row[1])}`;
    });
    while (tiles.children.length > rows.length) tiles.lastChild.remove();
  } else tiles.replaceChildren();
  const worst = [...rows].sort(([, one], [, other]) => SEVERITY.indexOf(other[0]) - SEVERITY.indexOf(one[0]) || other[1] - one[1]);
  const chosen = crowded ? [...rows.filter(([key]) => key === open), ...worst.filter(([key]) => key !== open).slice(0, KEPT_ROWS)] : rows;
  const called = (key) => { const [topic, number_] = key.split(" ").slice(-2); return `${plain(topic)} ${number_}`; };
  const heads = ["partition", "verdict", "behind", "lag", "in/s", "out/s", "caught up in", "kept for"];
  table(part.querySelector(".scroll"), heads, chosen.map(([key, row]) => {
    const [verdict, lagging, lagS, rateIn, rateOut, catchUp, kept] = row;
    return {
      key,
      class: key === open ? "is-open" : "",
      cells: [called(key), badge(verdict), lagging ? span(lagS) : "–", count(lagging), number(rateIn), number(rateOut), lagging ? span(catchUp) : "–", kept === null ? "always" : span(kept)],
    };
  }), (row) => row.key);
  const whys = chosen.map(([key, [verdict, , , , , , , , , lost, transaction, reason, note]]) => {
    const more = [transaction === null ? "" : `a transaction is open for ${span(transaction)}`, lost ? `${count(lost)} lost` : "", note];
    return { key, verdict, words: [verdict === "OK" && key !== open ? "" : plain(reason), ...more].filter(Boolean).join("; ") };
  }).filter((one) => one.words);
  part.querySelector(".whys").replaceChildren(...whys.map((one) => h("p.why", { "data-why": one.key }, h(`b.v-${one.verdict}`, {}, called(one.key)), ` ${one.words}`)));
}

const short = (value) => (value >= 10000 ? `${(value / 1000).toPrecision(3)}k` : String(value));
