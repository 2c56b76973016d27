// The console: asks for /console/state every two seconds and draws it.  No library, nothing from elsewhere.
"use strict";

const EVERY_MS = 2000;
const at = (id) => document.getElementById(id);
const chosen = { service: location.hash.slice(1), state: null };

// ---------------------------------------------------------------- words and numbers

const seconds = (value) =>
  value == null ? "–" : value < 0.001 ? `${(value * 1e6).toFixed(0)} µs` : value < 1 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} s`;
const percent = (value) => (value == null ? "–" : `${(Math.floor(value * 1000) / 10).toFixed(1)} %`);
const count = (value) => (value ?? 0).toLocaleString("en");
const clock = (moment) => new Date(moment * 1000).toLocaleTimeString([], { hour12: false });
const short = (worker) => worker.split("/").pop();

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// ---------------------------------------------------------------- the service's objective

function tile(what, value, more, tone = "") {
  return make("div", { class: "tile" }, make("div", { class: "what" }, what), make("div", { class: `value ${tone}` }, value), make("div", { class: "more" }, more));
}

// How fast the error budget goes: 1 uses it up exactly; a share of one part in a thousand is never 100 %.
function burn(met, target) {
  return met == null ? null : (1 - met) / (1 - target);
}

function objective(what, service, value, met) {
  const { percentile, [what]: limit } = service.limits;
  const target = percentile / 100;
  const tone = met == null ? "soft" : met >= target ? "good" : met >= target - 2 * (1 - target) ? "warn" : "bad";
  const rate = burn(met, target);
  const more = met == null ? "no streams in five minutes" : `${percent(met)} within ${seconds(limit)}, burn ${rate.toFixed(1)}x`;
  return tile(`${what.toUpperCase()} p${percentile}`, seconds(value), more, tone);
}

function drawTiles(service) {
  const serving = (role) => service.workers.filter((it) => it.role === role && it.health === "ready").length;
  const there = (role) => service.workers.filter((it) => it.role === role).length;
  const hits = chosen.state.decisions.filter((it) => it.service === service.name && it.decode);
  const asked = hits.reduce((sum, it) => sum + it.promptTokens, 0);
  const held = hits.reduce((sum, it) => sum + it.hitTokens, 0);
  at("tiles").replaceChildren(
    objective("ttft", service, service.ttft, service.ttftMet),
    objective("tpot", service, service.tpot, service.tpotMet),
    tile("Prefill : decode", `${serving("prefill")} : ${serving("decode")}`, `of ${there("prefill")} and ${there("decode")} workers`, serving("decode") ? "" : "bad"),
    tile("In flight", count(service.inFlight), service.queued ? `${count(service.queued)} wait for room` : "nobody waits", service.queued ? "warn" : ""),
    tile("Prefix hits", asked ? percent(held / asked) : "–", `of the last ${hits.length} prompts' tokens`),
  );
}

// ---------------------------------------------------------------- charts

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text != null) made.textContent = text;
  return made;
}

const WIDTH = 400, HEIGHT = 120, LEFT = 38, TOP = 9, BOTTOM = 16;

function chart(place, moments, lines, { least = 0, most, limit, label = count }) {
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

function legend(id, one, two) {
  at(id).replaceChildren(make("span", { class: "one" }, `— ${one}`), " ", make("span", { class: "two" }, `— ${two}`));
}

function drawCharts(service) {
  const moments = service.history;
  const target = service.limits.percentile / 100;
  const worst = Math.min(target, ...moments.flatMap((it) => [it.ttftMet, it.tpotMet]).filter((it) => it != null));
  chart(at("met"), moments, [["one", (it) => it.ttftMet], ["two", (it) => it.tpotMet]], { least: Math.max(0, Math.floor(worst * 20 - 1) / 20), most: 1, limit: target, label: (it) => `${+(it * 100).toFixed(1)}%` });
  chart(at("pools"), moments, [["one", (it) => it.prefill], ["two", (it) => it.decode]], { most: Math.max(2, ...moments.flatMap((it) => [it.prefill, it.decode])) });
  chart(at("load"), moments, [["one", (it) => it.inFlight], ["two", (it) => it.queued]], {});
  legend("met-legend", "TTFT", "TPOT");
  legend("pool-legend", "prefill", "decode");
  legend("load-legend", "in flight", "queued");
}

// ---------------------------------------------------------------- tables

const TONES = { ready: "good", draining: "warn", starting: "warn", suspect: "bad", failed: "bad", unknown: "soft" };

function drawWorkers(service) {
  const rows = service.workers.toSorted((a, b) => a.role.localeCompare(b.role) * -1 || a.id.localeCompare(b.id, "en", { numeric: true }));
  at("workers").tBodies[0].replaceChildren(...rows.map((it) => make("tr", {},
    make("td", { title: it.revision }, short(it.id)), make("td", {}, it.role),
    make("td", { class: TONES[it.health], title: it.detail }, it.health + (it.detail ? `: ${it.detail}` : "")),
    make("td", { class: "n" }, count(it.inFlight)), make("td", { class: "n" }, count(it.uncachedTokens)), make("td", { class: "n" }, count(it.blocks)),
    make("td", { class: it.kvMode === "exact" ? "" : "warn", title: it.mismatchDetail }, it.kvMode === "exact" ? "by its events" : `by what was sent there (${it.mismatch})`),
    make("td", { class: "n" }, percent(it.exact)))));
}

function drawDecisions(service) {
  const rows = chosen.state.decisions.filter((it) => it.service === service.name);
  at("decisions").tBodies[0].replaceChildren(...rows.map((it) => make("tr", {},
    make("td", {}, clock(it.at)), make("td", {}, make("button", { type: "button", onclick: () => show(it.id) }, it.id)),
    make("td", {}, it.prefill ? short(it.prefill) : "–"), make("td", {}, it.decode ? short(it.decode) : "–"), make("td", { class: "n" }, count(it.promptTokens)),
    make("td", {}, make("meter", { min: 0, max: Math.max(1, it.promptTokens), value: it.hitTokens, title: `${it.hitTokens} of ${it.promptTokens} tokens` })),
    make("td", { class: "n" }, it.decode ? seconds(it.predictedTtft) : "–"), make("td", { class: "n" }, it.queued ? seconds(it.queued) : "–"), make("td", {}, it.reason))));
}

// ---------------------------------------------------------------- one request

async function show(id) {
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
  const written = side === "Decode" ? `, ${count(Number(it.outputTokens ?? 0))} tokens written` : "";
  const first = it.ttftS > 0 ? `, first token after ${seconds(it.ttftS)}` : "";
  return `${side}: ${outcome}; ${known}${moved}${written}${first}.`;
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
  return [make("p", {}, where), make("p", { class: "soft" }, facts), reports.length ? make("ul", {}, ...reports) : null, candidates.length ? make("table", {}, head, make("tbody", {}, ...candidates.map(row))) : null].filter(Boolean);
}

// ---------------------------------------------------------------- the loop

function current() {
  const services = chosen.state.services;
  return services.find((it) => `${it.namespace}/${it.name}` === chosen.service) ?? services[0];
}

function choose(service) {
  chosen.service = `${service.namespace}/${service.name}`;
  history.replaceState(null, "", `#${chosen.service}`);
  render();
}

function notice(text) {
  at("notice").hidden = !text;
  at("notice").textContent = text;
}

function render() {
  const service = current();
  at("services").replaceChildren(...chosen.state.services.map((it) => make("button", { type: "button", "aria-current": it === service, onclick: () => choose(it) }, it.name)));
  at("service").hidden = !service;
  notice(chosen.state.unready ? `This router takes no requests: ${chosen.state.unready}` : service ? "" : "No service yet.");
  if (!service) return;
  document.title = `${service.name} – Inferplane`;
  for (const part of [drawTiles, drawCharts, drawWorkers, drawDecisions]) part(service);
}

async function refresh() {
  try {
    const answer = await fetch("/console/state");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    chosen.state = await answer.json();
    render();
  } catch (error) {
    notice(`The router does not answer (${error.message}); what is shown is old.`);
  }
  setTimeout(refresh, EVERY_MS);
}

function turn() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
at("theme").addEventListener("click", turn);
at("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if (at("request").value.trim()) show(at("request").value.trim());
});
addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const nth = chosen.state?.services[Number(event.key) - 1];
  if (event.key === "/") { event.preventDefault(); at("request").focus(); }
  else if (event.key === "t") turn();
  else if (nth) choose(nth);
});
refresh();
