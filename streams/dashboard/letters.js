// A look at refused records: which ones, why, and their bytes.

import { count, h, moment } from "./format.js";

const dialog = () => document.getElementById("letter");

async function ask(path) {
  const answer = await fetch(path);
  return answer.ok ? answer.json() : null;
}

/** Open the list of a reason's newest records, and the newest of them. */
export async function openReason(number) {
  const found = (await ask(`letters?reason=${number}`)) ?? [];
  const list = h("ol.records", {}, found.map((one) => h("li", {}, h("button", { type: "button", "data-letter": one.id }, h("b", {}, one.place), h("small", {}, `${moment(one.at)} · ${count(one.bytes)} bytes`)))));
  const body = h("div.record");
  const close = h("button.close", { type: "button", "aria-label": "Close", onclick: () => dialog().close() }, "✕");
  dialog().replaceChildren(h("header", {}, h("h2", { id: "letter-title" }, "Refused records"), close), h("div.split", {}, list, body));
  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-letter]");
    if (button) show(body, list, button.dataset.letter);
  });
  if (!dialog().open) dialog().showModal();
  if (found.length) await show(body, list, found[0].id);
  else body.replaceChildren(h("p.empty", {}, "These records are no longer kept here; they are on the dead-letters topic."));
}

async function show(body, list, id) {
  for (const button of list.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.letter === id);
  const letter = await ask(`letters/${encodeURIComponent(id)}`);
  if (!letter) return body.replaceChildren(h("p.empty", {}, "This record is no longer kept here."));
  const facts = { topic: letter.topic, partition: letter.partition, offset: letter.offset, written: moment(letter.timestamp), refused: moment(letter.at), key: letter.key ?? "none" };
  body.replaceChildren(
    h("p.why", {}, letter.reason),
    h("dl", {}, Object.entries(facts).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])),
    h("h3", {}, letter.decoded.kind ? `Decoded as ${letter.decoded.kind}` : "Not decodable"),
    letter.decoded.error ? h("p.note", {}, letter.decoded.error) : h("pre.decoded", {}, Object.entries(letter.decoded.fields).map(field).join("\n")),
    h("h3", {}, letter.bytes === null ? "No bytes" : `${count(letter.bytes)} bytes${letter.bytes * 2 > letter.hex.length ? `, the first ${count(letter.hex.length / 2)} shown` : ""}`),
    h("pre.hex", { tabindex: 0 }, dump(letter.hex)),
  );
}

function field([name, value]) {
  if (value && typeof value === "object") {
    const more = value.length > value.first.length ? `, … ${count(value.length)} in all` : "";
    return `${name}: [${value.first.join(", ")}${more}]`;
  }
  return `${name}: ${JSON.stringify(value)}`;
}

/** Sixteen bytes a line: offset, hex, text; eight on a narrow screen. */
function dump(hex) {
  const bytes = hex.match(/../g) ?? [];
  const wide = innerWidth < 600 ? 8 : 16;
  const rows = [];
  for (let at = 0; at < bytes.length; at += wide) {
    const part = bytes.slice(at, at + wide);
    const text = part.map((byte) => { const code = parseInt(byte, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "·"; }).join("");
    rows.push(`${at.toString(16).padStart(4, "0")}  ${part.join(" ").padEnd(wide * 3)} ${text}`);
  }
  return rows.join("\n");
}
