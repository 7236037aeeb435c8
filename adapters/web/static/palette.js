// Goes to a page, a line or an open alert by its name; steps through messages and rows with the keyboard; copies addresses.

import { addressOf, asked } from "./asked.js";
import { fit, used } from "./complete.js";
import { $, $$, commands, still, tell } from "./page.js";

const MOST = 9;
const palette = $("#palette");
const input = $("input", palette);
const list = $("#places");
let places = []; // words, what it is, address, and how often it was asked
let at = 0;

// -- destinations ------------------------------------------------------------------------------

function shownHere() {
  const pages = $$(".rail a:not(.brand)").map((link) => [$("span", link).textContent, "page", link.pathname]);
  const views = $$(".head .tabs a").map((link) => [link.textContent, "view", link.href]);
  return [...pages, ...views];
}

async function openAlerts() {
  const answer = await fetch("/now").catch(() => null);
  if (!answer?.ok) return [];
  const strip = new DOMParser().parseFromString(await answer.text(), "text/html");
  return $$(".wasting a", strip).map((link) => [
    `${$(".dollars", link).textContent.trim()} ${$(".what", link).textContent.trim()}`, "open alert", link.getAttribute("href"),
  ]);
}

function commandPlace(hint) {
  const begun = hint.changes || hint.needed;
  return [begun ? `${hint.name} …` : hint.example, hint.summary, begun ? `/ask?draft=${encodeURIComponent(hint.name)}` : addressOf(hint.example)];
}

async function everywhere() {
  const [alerts, hints] = await Promise.all([openAlerts(), commands()]);
  const lines = asked().map((line) => [line, "you asked", addressOf(line)]);
  return [...alerts, ...shownHere(), ...lines, ...hints.map(commandPlace)];
}

// -- the list --------------------------------------------------------------------------------------

const length = (name) => name.split(" ").length;

function fitting(typed) {
  const [words, uses] = [typed.trim().toLowerCase(), used()];
  const ranked = places.map(([name, what, href], i) => ({ name, what, href, i, fits: fit(name.toLowerCase(), words), uses: uses(name) }));
  const kept = ranked.filter((place) => place.fits < Infinity);
  kept.sort((a, b) => a.fits - b.fits || (words ? b.uses - a.uses || length(a.name) - length(b.name) : 0) || a.i - b.i);
  const seen = new Set();
  const once = kept.filter((place) => !seen.has(place.name) && seen.add(place.name)).slice(0, MOST);
  return words ? [...once, { name: typed.trim(), what: "ask this", href: addressOf(typed.trim()) }] : once;
}

function draw() {
  list.replaceChildren(...fitting(input.value).map(({ name, what, href }, i) => {
    const option = document.createElement("li");
    option.id = `place-${i}`;
    option.setAttribute("role", "option");
    const words = document.createElement("b");
    words.textContent = name;
    const kind = document.createElement("span");
    kind.textContent = what;
    option.append(words, kind);
    option.dataset.href = href;
    return option;
  }));
  choose(0);
}

function choose(index) {
  const options = $$("li", list);
  at = (index + options.length) % Math.max(options.length, 1);
  options.forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
  if (!options.length) return;
  input.setAttribute("aria-activedescendant", options[at].id);
  options[at].scrollIntoView({ block: "nearest" });
}

function go(option) {
  if (!option) return;
  palette.close();
  location.assign(option.dataset.href);
}

async function open() {
  if (palette.open) return;
  places = [...shownHere(), ...asked().map((line) => [line, "you asked", addressOf(line)])];
  input.value = "";
  draw();
  palette.showModal();
  places = await everywhere();
  draw();
}

// -- keys ------------------------------------------------------------------------------------------

const STOPS = "#messages > .slot, .page tbody tr.opens:not([hidden]) a, .hints a";

function step(by) {
  const stops = $$(STOPS).filter((stop) => stop.getClientRects().length);
  const from = stops.findIndex((stop) => stop.contains(document.activeElement));
  const next = stops[from < 0 ? (by > 0 ? 0 : stops.length - 1) : Math.min(Math.max(from + by, 0), stops.length - 1)];
  if (!next) return;
  if (next.matches(".slot")) next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest", behavior: still() ? "auto" : "smooth" });
}

function pressed(event) {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
    event.preventDefault();
    return open();
  }
  // A dialog that was just closed may keep the focus for a moment.
  const types = event.target.closest?.(":is(input:not([type=checkbox]), select, textarea):not(dialog:not([open]) *), dialog[open]");
  if (types || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.key === "j" || event.key === "k") return step(event.key === "j" ? 1 : -1);
  if (event.key === "?") return $("#keys").showModal();
  return undefined;
}

// -- addresses -------------------------------------------------------------------------------------

async function copy(button) {
  const address = new URL(button.dataset.href ?? location.href, location.href).href;
  try {
    await navigator.clipboard.writeText(address);
  } catch { // a plain address of another machine has no clipboard of its own
    const field = document.createElement("input");
    field.value = address;
    button.after(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  tell("Address copied.");
  setTimeout(() => { button.textContent = before; }, 1_500);
}

for (const button of $$(".finds, .head .copy")) button.hidden = false;
$(".finds").addEventListener("click", open);
input.addEventListener("input", draw);
palette.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) { event.preventDefault(); choose(at + by); }
  if (event.key === "Enter") { event.preventDefault(); go($$("li", list)[at]); }
});
list.addEventListener("click", (event) => go(event.target.closest("li")));
document.addEventListener("keydown", pressed);
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) copy(button);
});
