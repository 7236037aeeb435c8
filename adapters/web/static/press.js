// Answers presses and typed lines in place: what the page says is what the server did.

import { $, $$, fragment, placeOf, reachable, still, tell } from "./page.js";
import { lost, nowSoon, readAgain } from "./live.js";

const PATIENCE_MS = 2_000; // after which somebody who waits is told that it goes on
const LONGEST_MS = 180_000; // longer than any line may work
const UNREACHED =
  "No answer came, so it is not known whether this was done. Once the console answers, check, and press again if needed.";
const AROUND = ".live, .private, #page, main"; // what is drawn anew as a whole
const backs = new WeakMap(); // how the focus returns from what was opened or answered

async function send(form) {
  const asked = { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Trnbot": "console" } };
  const response = await fetch(form.action, { ...asked, signal: AbortSignal.timeout(LONGEST_MS) }).catch(() => {
    lost();
    throw new Error(UNREACHED);
  });
  const said = await response.text();
  if (!response.ok) throw new Error(said.slice(0, 300));
  const header = (name) => response.headers.get(`X-Trnbot-${name}`) ?? "";
  return {
    html: said,
    failed: header("Tone") === "error",
    form: header("Form") === "1",
    asks: header("Asks") === "1",
    changed: header("Changed") === "1",
    posted: header("Posted"),
    address: header("Address"),
    field: header("Field"),
  };
}

// -- where an answer goes ------------------------------------------------------------------------

function answersFor(form) {
  const own = form.closest("dialog")?.where ?? form.closest(".answers");
  if (own?.isConnected) return own;
  const slot = form.closest(".slot") ?? (form.elements.where?.value && document.getElementById(form.elements.where.value));
  return (slot && $(".answers", slot)) || $("#answers");
}

function place(where, content) {
  const before = where.id === "answers" ? null : where.firstChild;
  where.insertBefore(content, before);
  const shown = before ? where.firstElementChild : where.lastElementChild;
  reachable(where);
  shown?.scrollIntoView({ block: "nearest", behavior: still() ? "auto" : "smooth" });
  return shown;
}

function element(tag, kind, ...parts) {
  const made = document.createElement(tag);
  made.className = kind;
  made.append(...parts);
  return made;
}

const note = (kind, ...words) => element("p", kind, ...words);

const hostOf = (form) => form.closest("dialog .dialog-body, .card, .composer") ?? form;

function fail(form, words) {
  const said = note("failure", words);
  said.setAttribute("role", "alert");
  hostOf(form).append(said);
}

function clear(form) {
  for (const old of $$(".failure, .problem", hostOf(form))) old.remove();
  for (const input of $$("[aria-invalid]", form)) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
}

// -- pressing ------------------------------------------------------------------------------------

// Says after two seconds that work is in progress, where the answer will be; returns how to remove that.
function patience(form) {
  let shown = null;
  const timer = setTimeout(() => {
    shown = note("working", "Working on it…");
    if (form.closest("dialog")) form.append(shown);
    else place(answersFor(form), shown);
    tell("Working on it.");
  }, PATIENCE_MS);
  return () => { clearTimeout(timer); shown?.remove(); };
}

async function submitted(event) {
  const form = event.target;
  if (form.method !== "post" || "plain" in form.dataset) return;
  event.preventDefault();
  const button = event.submitter ?? $("button", form);
  if (button.getAttribute("aria-busy") === "true") return;
  if (form.dataset.confirm) return confirm(form, button);
  button.setAttribute("aria-busy", "true");
  clear(form);
  const done = patience(form);
  const back = form.id === "composer" ? () => $("#line").focus() : placeOf(button, button.closest(AROUND));
  try {
    const answer = await send(form);
    done();
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 900);
    shown(form, answer, back);
  } catch (error) {
    fail(form, error.message);
  } finally {
    done();
    button.removeAttribute("aria-busy");
  }
}

function shown(form, answer, back) {
  const dialog = form.closest("dialog");
  if (answer.failed && form.matches(".fill")) return refused(form, answer);
  const where = answersFor(form);
  const goesOn = answer.asks || (answer.form && (dialog || form.dataset.opens === "1"));
  if (goesOn) return openDialog(fragment(answer.html), where, dialog ? backs.get(dialog) : back, answer.asks);
  if (dialog) dialog.close();
  if (form.id === "composer") form.reset();
  // A page that shows only answers has the address of the last one.
  if (form.id === "composer" && answer.address && location.pathname === "/ask") {
    history.pushState(null, "", answer.address);
    drawn = lineHere();
  }
  if (answer.posted) place(where, posted(answer.posted));
  if (answer.html) answered(place(where, fragment(answer.html)), dialog ? backs.get(dialog) : back);
  if (answer.changed) ($("#messages") ? nowSoon() : readAgain().catch(() => {}));
  return undefined;
}

function answered(article, back) {
  backs.set(article, back);
  tell(`Answer: ${$("h2", article)?.textContent ?? ""}`);
}

function posted(channel) {
  const link = document.createElement("a");
  link.href = "/";
  link.textContent = `# ${channel}`;
  tell(`Everyone sees it in ${channel}.`);
  return note("noted", "Everyone sees it in ", link, ".");
}

// A refused form says so under the wrong field, else above all fields.
function refused(form, answer) {
  const problem = note("problem");
  problem.id = "problem";
  problem.setAttribute("role", "alert");
  problem.append(...$$(".card > .text", fragment(answer.html)).flatMap((words) => [...words.childNodes]));
  const input = answer.field && $$(`[name="f.${CSS.escape(answer.field)}"]`, form).at(-1);
  if (!input) return form.prepend(problem);
  input.closest("label").append(problem);
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", problem.id);
  return input.focus();
}

// -- the dialog ------------------------------------------------------------------------------------

function openDialog(content, where, back, asks) {
  const dialog = $("#dialog");
  if (asks) $(".buttons", content).append(wayOut());
  $(".dialog-body", dialog).replaceChildren(...$$(".card", content));
  dialog.setAttribute("aria-label", $("h2", dialog)?.textContent ?? "Form");
  dialog.where = where;
  backs.set(dialog, back);
  if (!dialog.open) dialog.showModal();
  $("input:not([type=hidden]), select, .buttons button", dialog)?.focus();
}

function wayOut() {
  const button = element("button", "button", "Leave it");
  button.type = "button";
  button.dataset.close = "";
  return button;
}

// A press with wide effects is confirmed first: the same form once more, and a way out.
function confirm(form, button) {
  const again = form.cloneNode(true);
  delete again.dataset.confirm;
  const title = element("h2", "", `${button.textContent.trim()}?`);
  const content = document.createDocumentFragment();
  content.append(element("div", "card warning", title, note("text", form.dataset.confirm), element("div", "buttons", again)));
  openDialog(content, answersFor(form), placeOf(button, button.closest(AROUND)), true);
}

// The browser returns the focus to what opened the dialog, but not if that was redrawn meanwhile.
function closed() {
  if (document.activeElement === document.body) backs.get($("#dialog"))?.();
}

function dismissed(article) {
  const back = backs.get(article) ?? (() => $("#line").focus());
  article.remove();
  back();
}

// -- the address of the last answer --------------------------------------------------------------------

const lineHere = () => location.pathname + (new URLSearchParams(location.search).get("line") ?? "");
let drawn = lineHere();

// -- leaving for another page ------------------------------------------------------------------------

let leaving = 0;

function left(event) {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.origin !== location.origin) return;
  document.body.classList.add("leaving");
  leaving = setTimeout(() => {
    $(".column").prepend(note("working", "Working on it…"));
    tell("Working on it.");
  }, PATIENCE_MS);
}

function returned() { // by the browser's button, to a page that was kept
  clearTimeout(leaving);
  document.body.classList.remove("leaving");
  for (const old of $$(".column > .working")) old.remove();
}

export function start() {
  document.addEventListener("submit", submitted);
  document.addEventListener("click", (event) => {
    const dismiss = event.target.closest(".dismiss");
    if (dismiss) dismissed(dismiss.closest(".message"));
    const dialog = event.target.closest("dialog");
    if (dialog && (event.target === dialog || event.target.closest(".close, [data-close]"))) dialog.close();
    left(event);
  });
  $("#dialog").addEventListener("close", closed);
  addEventListener("pageshow", returned);
  addEventListener("popstate", () => { if (lineHere() !== drawn) location.reload(); });
}
