// The console: asks for /console/state every two seconds and draws it.  No library, nothing from elsewhere.

import { at, chart, clock, count, make, percent, seconds, short } from "./draw.js";
import { show } from "./request.js";

const EVERY_MS = 2000;
const chosen = { service: location.hash.slice(1), state: null };

// ---------------------------------------------------------------- what a person asks first

const HALVES = ["ttft", "tpot"];
const SERVES = new Set(["ready", "suspect"]);

// Why it may be: who is ill, who waits, and what the planner makes of it.
function circumstances(service) {
  const ill = service.workers.filter((it) => it.health !== "ready").map((it) => `${short(it.id)} is ${it.health}`);
  const waiting = service.queued ? [`${count(service.queued)} wait for room`] : [];
  const plan = service.plan ? [`the planner: ${service.plan.reason}`] : [];
  return [...ill.slice(0, 4), ...waiting, ...plan].join("; ");
}

// One sentence on how it stands, and one for each half that is missed, or was in the last hour.
function drawVerdict(service) {
  const missed = HALVES.filter((it) => service.missed[it]);
  const lasts = missed.filter((it) => service.missed[it].lasts);
  const [head, tone] = standing(service, missed, lasts);
  const told = missed.map((it) => sentence(it, service));
  const why = lasts.length ? circumstances(service) : "";
  at("verdict").className = tone;
  at("verdict").replaceChildren(make("strong", {}, head), make("span", {}, ["", ...told, ...(why ? [`Now ${why}.`] : [])].join(" ")));
}

function standing(service, missed, lasts) {
  if (!service.workers.some((it) => it.role === "decode" && SERVES.has(it.health))) return ["No decode worker takes requests.", "bad"];
  if (lasts.length) return ["The objective is missed.", "bad"];
  if (service.ttftMet == null) return ["No stream in five minutes.", "soft"];
  return ["The objective holds.", missed.length ? "warn" : "good"];
}

function sentence(what, service) {
  const { began, ended, met, lasts } = service.missed[what];
  const when = lasts ? `since ${clock(began)}` : `was missed from ${clock(began)} to ${clock(ended)}`;
  return `${what.toUpperCase()} ${when}: ${percent(met)} came within ${seconds(service.limits[what])}.`;
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
  const more = met == null ? "no streams in five minutes" : `${percent(met)} within ${seconds(limit)}, burn\u00a0${rate.toFixed(1)}x`;
  return tile(`${what.toUpperCase()} p${percentile}`, seconds(value), more, tone);
}

const decisionsOf = ({ namespace, name }) => chosen.state.decisions.filter((it) => it.namespace === namespace && it.service === name);

function refusals() {
  const total = Object.values(chosen.state.refused).reduce((sum, it) => sum + it, 0);
  return total ? `, ${count(total)}\u00a0refused since the router’s start` : "";
}

function drawTiles(service) {
  const serving = (role) => service.workers.filter((it) => it.role === role && it.health === "ready").length;
  const there = (role) => service.workers.filter((it) => it.role === role).length;
  const hits = decisionsOf(service).filter((it) => it.decode);
  const asked = hits.reduce((sum, it) => sum + it.promptTokens, 0);
  const held = hits.reduce((sum, it) => sum + it.hitTokens, 0);
  at("tiles").replaceChildren(
    objective("ttft", service, service.ttft, service.ttftMet),
    objective("tpot", service, service.tpot, service.tpotMet),
    tile("Prefill : decode", `${serving("prefill")} : ${serving("decode")}`, `of ${there("prefill")} and ${there("decode")} workers`, serving("decode") ? "" : "bad"),
    tile("In flight", count(service.inFlight), `${service.queued ? `${count(service.queued)} wait for room` : "nobody waits"}${refusals()}`, service.queued ? "warn" : ""),
    tile("Prefix hits", asked ? percent(held / asked) : "–", `of the last ${hits.length} prompts' tokens`),
  );
}

// ---------------------------------------------------------------- the last hour

function legend(id, one, two) {
  at(id).replaceChildren(make("span", { class: "one" }, `— ${one}`), " ", make("span", { class: "two" }, `— ${two}`));
}

function drawCharts(service) {
  const moments = service.history;
  const target = service.limits.percentile / 100;
  const worst = Math.min(target, ...moments.flatMap((it) => [it.ttftMet, it.tpotMet]).filter((it) => it != null));
  chart(at("met"), moments, [["one", (it) => it.ttftMet], ["two", (it) => it.tpotMet]], { least: Math.max(0, Math.floor(worst * 20 - 1) / 20), most: 1, limit: target, label: (it) => `${+(it * 100).toFixed(1)}%` });
  const marks = service.plans.map((it) => ({ at: it.at, text: `${planned(it)}: ${it.reason}` }));
  chart(at("pools"), moments, [["one", (it) => it.prefill], ["two", (it) => it.decode]], { marks, most: Math.max(2, ...moments.flatMap((it) => [it.prefill, it.decode])) });
  chart(at("load"), moments, [["one", (it) => it.inFlight], ["two", (it) => it.queued]], {});
  legend("met-legend", "TTFT", "TPOT");
  legend("pool-legend", "prefill", "decode");
  legend("load-legend", "in flight", "queued");
}

// ---------------------------------------------------------------- tables

const TONES = { ready: "good", draining: "warn", starting: "warn", suspect: "bad", failed: "bad", unknown: "soft" };

function drawWorkers(service) {
  const rows = service.workers.toSorted(byRole);
  at("workers").tBodies[0].replaceChildren(...rows.map((it) => make("tr", {},
    make("td", { title: it.revision }, short(it.id)), make("td", {}, it.role),
    make("td", { class: TONES[it.health], title: it.detail }, it.detail && it.detail !== it.health ? `${it.health}: ${it.detail}` : it.health),
    make("td", { class: "n" }, count(it.inFlight)), make("td", { class: "n" }, count(it.uncachedTokens)), make("td", { class: "n" }, count(it.blocks)),
    make("td", { class: it.kvMode === "exact" ? "" : "warn", title: it.mismatchDetail }, it.kvMode === "exact" ? "by its events" : `by what was sent there (${it.mismatch})`),
    make("td", { class: "n" }, percent(it.exact)))));
}

const ROLES = { prefill: 0, decode: 1 };
const byRole = (a, b) => ROLES[a.role] - ROLES[b.role] || a.id.localeCompare(b.id, "en", { numeric: true });

// ---------------------------------------------------------------- the planner

const planned = (it) => `${it.prefill}P : ${it.decode}D${it.lent ? ` (${it.lent} lent)` : ""}${it.acting ? "" : ", advice"}`;
const VERDICTS = { Met: "good", Starting: "warn", Pending: "warn", Unattainable: "bad", Limited: "bad", Budget: "bad" };

function drawPlans(service) {
  at("plan-section").hidden = !service.plan;
  if (!service.plan) return;
  at("plan-now").textContent = `Now ${planned(service.plan)}${service.plan.costPerHour ? `, ${service.plan.costPerHour.toFixed(2)} an hour` : ""}: ${service.plan.reason}`;
  at("plans").tBodies[0].replaceChildren(...service.plans.toReversed().slice(0, 12).map((it) => make("tr", {},
    make("td", {}, clock(it.at)), make("td", {}, planned(it)), make("td", { class: VERDICTS[it.verdict] ?? "soft" }, it.verdict), make("td", {}, it.reason))));
}

// ---------------------------------------------------------------- prefixes and where they live

const MOST_CELLS = 48;

// From 0, nothing, to 4, all of it.
const filled = (held, whole) => (held >= whole ? 4 : held > 0 ? 1 + Math.floor((held / whole) * 3) : 0);

function cell(worker, prefix) {
  const held = Math.min(prefix.tokens, prefix.held[worker.id] ?? 0);
  return make("span", { class: `cell heat${filled(held, prefix.tokens)}`, title: `${short(worker.id)}: ${count(held)} of ${count(prefix.tokens)} tokens` });
}

function drawPrefixes(service) {
  at("prefix-section").hidden = !service.prefixes.length;
  const workers = service.workers.toSorted(byRole).slice(0, MOST_CELLS);
  at("prefixes").tBodies[0].replaceChildren(...service.prefixes.map((it) => {
    const whole = workers.filter((worker) => (it.held[worker.id] ?? 0) >= it.tokens).map((worker) => short(worker.id));
    const where = whole.length ? whole.slice(0, 4).join(", ") + (whole.length > 4 ? ` and ${whole.length - 4} more` : "") : "nobody has all of it";
    return make("tr", {}, make("td", {}, make("code", {}, it.name.slice(0, 8))), make("td", { class: "n" }, count(it.tokens)), make("td", { class: "n" }, count(it.asked)),
      make("td", {}, make("span", { class: "cells", role: "img", "aria-label": where }, ...workers.map((worker) => cell(worker, it)))), make("td", {}, where));
  }));
}

// ---------------------------------------------------------------- decisions

function drawDecisions(service) {
  const rows = decisionsOf(service);
  at("decisions").tBodies[0].replaceChildren(...rows.map((it) => make("tr", {},
    make("td", {}, clock(it.at)), make("td", {}, make("button", { type: "button", "data-key": it.id, onclick: () => show(it.id) }, it.id)),
    make("td", {}, it.prefill ? short(it.prefill) : "–"), make("td", {}, it.decode ? short(it.decode) : "–"), make("td", { class: "n" }, count(it.promptTokens)),
    make("td", {}, make("meter", { min: 0, max: Math.max(1, it.promptTokens), value: it.hitTokens, title: `${it.hitTokens} of ${it.promptTokens} tokens` })),
    make("td", { class: "n" }, it.decode ? seconds(it.predictedTtft) : "–"), make("td", { class: "n" }, it.queued ? seconds(it.queued) : "–"), make("td", {}, it.reason))));
}

// ---------------------------------------------------------------- the loop

function current() {
  const services = chosen.state.services;
  return services.find((it) => `${it.namespace}/${it.name}` === chosen.service) ?? services[0];
}

function choose(service) {
  chosen.service = `${service.namespace}/${service.name}`;
  history.replaceState(null, "", `#${chosen.service}`);
  keepingFocus(render);
}

function notice(text) {
  at("notice").hidden = !text;
  at("notice").textContent = text;
}

// What is drawn anew takes the focus along, if what had it is still there.
function keepingFocus(drawing) {
  const key = document.activeElement?.dataset?.key;
  drawing();
  if (key != null) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

function warning({ unready, processes }) {
  if (unready) return `This router takes no requests: ${unready}`;
  if (processes.answered < processes.expected) return `Only ${processes.answered} of this router's ${processes.expected} processes answered; the others' requests are missing here.`;
  return "";
}

function render() {
  const service = current();
  at("services").replaceChildren(...chosen.state.services.map((it) => make("button", { type: "button", "data-key": `${it.namespace}/${it.name}`, "aria-current": it === service, onclick: () => choose(it) }, it.name)));
  at("service").hidden = !service;
  notice(warning(chosen.state) || (service ? "" : "No service yet."));
  if (!service) return;
  document.title = `${service.name} – Inferplane`;
  for (const part of [drawVerdict, drawTiles, drawCharts, drawPlans, drawWorkers, drawPrefixes, drawDecisions]) part(service);
}

async function refresh() {
  try {
    const answer = await fetch("/console/state");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    chosen.state = await answer.json();
    keepingFocus(render);
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

// Move through the last decisions.
function step(by) {
  if (at("decision").open) return;
  const rows = [...at("decisions").querySelectorAll("button")];
  const here = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, here < 0 ? 0 : here + by))]?.focus();
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
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (nth) choose(nth);
});
refresh();
