// One request: where it went, how long each step took, and what the other candidates would have cost.

import { at, count, draw, make, seconds, short } from "./draw.js";

export async function show(id) {
  const answer = await fetch(`/console/requests/${encodeURIComponent(id)}`);
  const record = await answer.json();
  at("decision-title").textContent = `Request ${id}`;
  at("decision-body").replaceChildren(...(answer.ok ? told(record) : [make("p", { class: "bad" }, record.error.message)]));
  if (!at("decision").open) at("decision").showModal();
}

const TERMS = {
  own_ttft: "first token", ttft_overrun: "beyond the TTFT limit", tpot_overrun: "beyond the TPOT limit",
  prefill_delay_to_others: "prompts behind", stalled_decodes: "answers held up", decode: "its decoding",
};

function report(it) {
  const side = it.side === "ROLE_PREFILL" ? "Prefill" : "Decode";
  const outcome = (it.outcome ?? "").replace("OUTCOME_", "").replaceAll("_", " ").toLowerCase();
  const known = it.cachedTokensKnown ? `${count(Number(it.cachedTokens ?? 0))} prompt tokens had been cached` : "what had been cached is unknown";
  const moved = it.transferredTokens ? `, ${count(Number(it.transferredTokens))} tokens' KV came over` : "";
  const written = side === "Decode" ? `, ${count(Number(it.outputTokens ?? 0))} ${Number(it.outputTokens) === 1 ? "token" : "tokens"} written` : "";
  const first = it.ttftS > 0 ? `, first token after ${seconds(it.ttftS)}` : "";
  return `${side}: ${outcome}; ${known}${moved}${written}${first}.`;
}

// ---------------------------------------------------------------- its way, step by step

// The answering side has the times of all steps; moments are seconds since the request came.
function steps(record) {
  const answered = (record.observed ?? []).findLast((it) => it.side !== "ROLE_PREFILL");
  const placed = (record.candidates ?? []).find((it) => it.chosen);
  if (!answered || !placed) return [];
  const decode = short(placed.decodeWorker), prefill = short(answered.prefillWorker || placed.decodeWorker);
  const all = [
    ["waits in the router", "soft", record.queuedS], [`waits at ${decode}`, "soft", answered.queueS], [`prompt, ${prefill}`, "two", answered.prefillS],
    [`KV to ${decode}`, "warn", answered.transferS], [`answer, ${decode}`, "one", answered.decodeS],
  ];
  let begun = 0;
  return all.filter(([, , took]) => took > 0).map(([name, style, took]) => ({ name, style, took, begun: (begun += took) - took }));
}

const ROW = 18, NAMES = 150, WIDE = 640;

function way(record) {
  const rows = steps(record);
  if (!rows.length) return null;
  const whole = rows.at(-1).begun + rows.at(-1).took, x = (moment) => NAMES + (moment / whole) * (WIDE - NAMES - 70);
  const svg = draw("svg", { class: "way", viewBox: `0 0 ${WIDE} ${rows.length * ROW + 16}`, role: "img", "aria-label": `Steps of the request, ${seconds(whole)} in all` });
  svg.append(...rows.map((it, row) => draw("rect", { class: it.style, x: x(it.begun), y: row * ROW + 3, width: Math.max(1, x(it.begun + it.took) - x(it.begun)), height: ROW - 7, rx: 2 })));
  const expected = record.predictedTtftS + (record.queuedS ?? 0);
  if (expected > 0 && expected <= whole) {
    svg.append(draw("line", { class: "limit", x1: x(expected), x2: x(expected), y1: 0, y2: rows.length * ROW }), draw("text", { x: x(expected), y: rows.length * ROW + 11, "text-anchor": "middle" }, `first token expected, ${seconds(expected)}`));
  }
  // Words last: they stand above the line.
  rows.forEach((it, row) => svg.append(draw("text", { x: 0, y: row * ROW + 12 }, it.name), draw("text", { x: x(it.begun + it.took) + 5, y: row * ROW + 12 }, seconds(it.took))));
  return svg;
}

function told(record) {
  const candidates = record.candidates ?? [], taken = candidates.find((it) => it.chosen);
  const terms = [...new Set(candidates.flatMap((it) => Object.entries(it.termsMs ?? {}).filter(([, ms]) => ms).map(([name]) => name)))];
  const observed = record.observed ?? [];
  const where = taken ? `${taken.prefillWorker ? `${short(taken.prefillWorker)} computed the prompt, ` : ""}${short(taken.decodeWorker)} answered.` : record.reason || "It went nowhere.";
  const facts = `${record.model}, ${count(record.promptTokens)} prompt tokens, first token expected after ${seconds(record.predictedTtftS)}.`;
  const row = (it) => make("tr", {},
    make("td", { class: it.chosen ? "good" : "" }, it.chosen ? "taken" : ""), make("td", {}, it.prefillWorker ? short(it.prefillWorker) : "–"), make("td", {}, short(it.decodeWorker)),
    ...terms.map((name) => make("td", { class: "n" }, (it.termsMs?.[name] ?? 0).toFixed(1))), make("td", { class: "n" }, it.excludedBecause ? "" : (it.costMs ?? 0).toFixed(1)), make("td", { class: "soft" }, it.excludedBecause ?? ""));
  const head = make("thead", {}, make("tr", {}, ...["", "Prefill", "Decode"].map((it) => make("th", {}, it)), ...terms.map((it) => make("th", { class: "n" }, TERMS[it] ?? it.replaceAll("_", " "))), make("th", { class: "n" }, "Cost, ms"), make("th", {}, "")));
  const reports = observed.map((it) => make("li", {}, report(it)));
  return [make("p", {}, where), make("p", { class: "soft" }, facts), way(record), reports.length ? make("ul", {}, ...reports) : null, candidates.length ? make("table", {}, head, make("tbody", {}, ...candidates.map(row))) : null].filter(Boolean);
}
