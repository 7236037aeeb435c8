// What every part of the console uses: looking things up, times in the reader's zone, redrawing without losing the reader's place.

import { ready as makeTables } from "./tables.js";

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// -- times ---------------------------------------------------------------------------------------

// As the answers write an instant, whatever the browser's language: one page says Nov 20 in one way.
const clock = new Intl.DateTimeFormat("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const full = new Intl.DateTimeFormat("en-US", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
});

export function localTimes(root) {
  for (const time of $$("time[datetime]", root)) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = (time.dataset.form === "clock" ? clock : full).format(at);
  }
}

export const shortTime = (at) => clock.format(at);

// -- server-made fragments (their texts are escaped there) -----------------------------------------

export function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  localTimes(template.content);
  return template.content;
}

// -- the commands ----------------------------------------------------------------------------------

let hints = null;

// Every command with its examples and arguments: loaded when somebody is about to type, because it is larger than most pages.
export function commands() {
  hints ??= fetch($("#composer").dataset.hints)
    .then((answer) => (answer.ok ? answer.json() : []))
    .catch(() => { hints = null; return []; });
  return hints;
}

// -- words for screen readers ---------------------------------------------------------------

export function tell(words) {
  $("#told").textContent = words;
}

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// -- redrawing ------------------------------------------------------------------------------------

const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
const TYPED = "input:not([type=hidden]), select, textarea";

// Two controls are the same if they say and do the same.
const nameOf = (one) => [one.tagName, one.getAttribute("aria-label") ?? one.textContent.trim(), one.form?.elements.line?.value ?? one.href ?? ""].join();

// Returns a function that puts the focus back onto the same control after a redraw.
export function placeOf(control, within) {
  const before = $$(FOCUSABLE, within);
  const [at, name] = [before.indexOf(control), nameOf(control)];
  return () => {
    const after = $$(FOCUSABLE, within);
    const same = after.find((one) => nameOf(one) === name) ?? after[Math.min(at, after.length - 1)];
    same?.focus({ preventScroll: true });
  };
}

// Replaces the content of a place, except while somebody types there. Returns whether it did.
export function redraw(place, content) {
  const had = place.contains(document.activeElement) && document.activeElement !== place ? document.activeElement : null;
  if (had?.matches(TYPED)) return false;
  const back = had && placeOf(had, place);
  const open = $$("details", place).map((one) => one.open);
  const [sorted, filtered] = [$$("table", place).map(sorting), $$(".filter input", place).map((one) => one.value)];
  place.replaceChildren(content);
  $$("details", place).forEach((one, i) => { one.open = open[i] ?? one.open; });
  makeTables(place);
  $$("table", place).forEach((table, i) => sortAs(table, sorted[i]));
  $$(".filter input", place).forEach((one, i) => filterBy(one, filtered[i]));
  reachable(place);
  back?.();
  return true;
}

function sorting(table) {
  const head = $("[aria-sort]", table);
  return head && { at: head.cellIndex, as: head.getAttribute("aria-sort") };
}

function sortAs(table, sorted) {
  const head = sorted && table.tHead.rows[0].cells[sorted.at];
  for (let i = 0; i < 2 && head && head.getAttribute("aria-sort") !== sorted.as; i += 1) $("button", head)?.click();
}

function filterBy(input, words) {
  if (!words) return;
  input.value = words;
  input.dispatchEvent(new Event("input"));
}

// Whatever scrolls sideways can be scrolled with the keyboard.
export function reachable(root = document) {
  for (const box of $$(".table", root)) {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    if (!scrolls) { for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name); continue; }
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", $("caption", box)?.textContent || "Table, scrolls sideways");
  }
}
