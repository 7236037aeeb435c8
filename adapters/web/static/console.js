// Makes the console live: events, pressed buttons, forms in a dialog, completion, times in the reader's zone.
// Everything here is an addition: without it the pages are read and asked by plain forms.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const scroller = $("#scroll");
const messages = $("#messages");

// -- times ---------------------------------------------------------------------------------------

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const full = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
});

function localTimes(root) {
  for (const time of $$("time[datetime]", root)) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = (time.dataset.form === "clock" ? clock : full).format(at);
  }
}

// -- showing server-made fragments (their texts are escaped there) ---------------------------------

function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  localTimes(template.content);
  return template.content;
}

function nearEnd() {
  const newest = $("#messages > .slot:last-of-type");
  const read = newest && scroller.scrollTop >= newest.offsetTop - scroller.offsetTop - 2;
  return Boolean(read) || scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 160;
}

// A newest message taller than the view shows its first line, which says what and how much, not its last button.
function toEnd() {
  const newest = $("#messages > .slot:last-of-type");
  const answered = $("#answers")?.childElementCount;
  const tall = newest && !answered && newest.offsetHeight > scroller.clientHeight;
  scroller.scrollTo({ top: tall ? newest.offsetTop - scroller.offsetTop : scroller.scrollHeight });
  $("#newer").hidden = true;
}

// -- live messages -------------------------------------------------------------------------------

function showMessage({ id, channel, html }) {
  if (!messages || messages.dataset.channel !== channel) return;
  const stay = !nearEnd();
  $("#empty").hidden = true;
  let slot = document.getElementById(id);
  const fresh = slot === null;
  if (fresh) {
    slot = document.createElement("section");
    slot.className = "slot";
    slot.id = id;
    slot.innerHTML = '<div class="live"></div><div class="answers"></div>';
    messages.append(slot);
  }
  const live = $(".live", slot);
  live.replaceChildren(fragment(html));
  live.classList.remove("changed");
  void live.offsetWidth; // restarts the highlight
  live.classList.add("changed");
  if (fresh && stay) $("#newer").hidden = false;
  else if (fresh) toEnd();
}

// The strip above the messages follows them, and the clock: with the header and the messages, all of one reading.
async function showNow() {
  if ($("#now") && !document.hidden) await readAgain();
}

let soon = 0;
function nowSoon() {
  clearTimeout(soon);
  soon = setTimeout(() => showNow().catch(() => {}), 400);
}

const facts = (root) => $$("[data-fact]", root).map((fact) => fact.outerHTML).join();
let told = "";

// A page that shows alerts keeps the header's figures of its own reading; where they have changed, the channel is read again.
function showStatus({ html }) {
  const fresh = fragment(html);
  const heard = facts(fresh);
  if ("reading" in document.body.dataset) {
    for (const fact of $$("[data-fact]", fresh)) {
      const own = $(`#status [data-fact="${fact.dataset.fact}"]`);
      if (own) fact.replaceWith(own.cloneNode(true));
    }
    if (told && heard !== told) nowSoon();
  }
  told = heard;
  $("#status").replaceChildren(fresh);
  countOpen();
}

function countOpen() {
  const open = Number($("[data-open]")?.dataset.open ?? 0);
  const badge = $("[data-count]");
  badge.textContent = String(open);
  badge.hidden = open === 0;
  document.title = document.title.replace(/^\(\d+\) /, "");
  if (open) document.title = `(${open}) ${document.title}`;
}

const read = new Map($$("#messages > .slot").map((slot) => [slot.id, $(".live", slot).innerHTML]));

async function readAgain() {
  const answer = await fetch("/");
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const slot of $$("#messages > .slot", page)) {
    const html = $(".live", slot).innerHTML;
    if (read.get(slot.id) === html) continue;
    const known = document.getElementById(slot.id);
    if (known && read.has(slot.id)) $(".live", known).replaceChildren(fragment(html)); // its dollars have moved on, and no more
    else showMessage({ id: slot.id, channel: messages.dataset.channel, html });
    read.set(slot.id, html);
  }
  $("#now").innerHTML = $("#now", page).innerHTML;
  localTimes($("#now"));
  for (const fact of $$("#status [data-fact]")) {
    const own = $(`#status [data-fact="${fact.dataset.fact}"]`, page);
    if (own) fact.replaceWith(own);
  }
  countOpen();
  document.body.dataset.version = page.body.dataset.version;
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("hello", (event) => { // whatever came between the page and this stream is read again
    document.body.classList.remove("offline");
    document.body.classList.add("live");
    if (messages && JSON.parse(event.data).version !== document.body.dataset.version) readAgain().catch(() => {});
  });
  events.addEventListener("message", (event) => {
    const told = JSON.parse(event.data);
    document.body.dataset.version = told.version;
    showMessage(told);
    nowSoon();
  });
  events.addEventListener("status", (event) => showStatus(JSON.parse(event.data)));
  events.addEventListener("error", () => document.body.classList.add("offline"));
}

// -- asking --------------------------------------------------------------------------------------

const UNREACHED = "The console does not answer; nothing was sent. Press again when the dot above is green.";

async function send(form) {
  const asked = { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Trnbot": "console" } };
  const response = await fetch(form.action, asked).catch(() => { throw new Error(UNREACHED); });
  if (!response.ok) throw new Error((await response.text()).slice(0, 300));
  return {
    html: response.status === 204 ? "" : await response.text(),
    failed: response.headers.get("X-Trnbot-Tone") === "error",
    form: response.headers.get("X-Trnbot-Form") === "1",
  };
}

function failure(error) {
  const note = document.createElement("p");
  note.className = "failure";
  note.textContent = error.message;
  return note;
}

function answersFor(form) {
  const slot = form.closest(".slot");
  const named = form.elements.where?.value && document.getElementById(form.elements.where.value);
  return $(".answers", slot || named || document) ?? $("#answers");
}

function place(where, content) {
  const before = where.id === "answers" ? null : where.firstChild;
  where.insertBefore(content, before);
  const shown = before ? where.firstElementChild : where.lastElementChild;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  shown?.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
}

async function submitted(event) {
  const form = event.target;
  if (form.method !== "post" || "plain" in form.dataset) return;
  event.preventDefault();
  const button = event.submitter ?? $("button", form);
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await send(form);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 900);
    shown(form, answer);
  } catch (error) {
    $(".failure", form.parentElement)?.remove();
    form.closest("dialog, .card, .composer").append(failure(error));
  } finally {
    button.removeAttribute("aria-busy");
  }
}

function shown(form, answer) {
  const dialog = form.closest("dialog");
  if (dialog && answer.failed) {
    $(".problem", dialog)?.remove();
    const problem = document.createElement("div");
    problem.className = "problem";
    problem.append(...$$(".card > .text", fragment(answer.html)));
    $(".dialog-body", dialog).prepend(problem);
    return;
  }
  const where = dialog ? dialog.where : form.id === "composer" ? $("#answers") : answersFor(form);
  dialog?.close();
  if (form.id === "composer") form.reset();
  if (answer.form && form.dataset.opens === "1") return openDialog(fragment(answer.html), where);
  if (answer.html) place(where, fragment(answer.html));
}

function openDialog(content, where) {
  const dialog = $("#dialog");
  $(".dialog-body", dialog).replaceChildren(...$$(".card", content));
  dialog.where = where;
  dialog.showModal();
}

// -- completion ----------------------------------------------------------------------------------

function completion(composer) {
  const input = $("#line", composer);
  const list = $("#complete", composer);
  const hints = JSON.parse(composer.dataset.hints);
  let at = -1;
  input.removeAttribute("list"); // the plain browser's list gives way to this one

  function fill(words) {
    input.value = words;
    close();
    input.focus();
  }
  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
  }
  function choose(step) {
    const options = $$("li", list);
    at = (at + step + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    options[at].scrollIntoView({ block: "nearest" });
  }
  function open() {
    const typed = input.value.replace(/^\/?trn\s+/i, "").trimStart().toLowerCase();
    const fitting = hints.filter((hint) => hint.example.startsWith(typed) || hint.name.startsWith(typed));
    if (!fitting.length || fitting.some((hint) => hint.example === typed)) return close();
    list.replaceChildren(...fitting.slice(0, 8).map((hint) => {
      const option = document.createElement("li");
      option.setAttribute("role", "option");
      const words = document.createElement("code");
      words.textContent = hint.example;
      const summary = document.createElement("span");
      summary.textContent = hint.summary;
      option.append(words, summary);
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); fill(hint.example); });
      return option;
    }));
    at = -1;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }
  input.addEventListener("input", open);
  input.addEventListener("focus", () => { if (!input.value) open(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    if (list.hidden) return undefined;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1);
    } else if (event.key === "Tab" || (event.key === "Enter" && at >= 0)) {
      event.preventDefault();
      fill($("code", $$("li", list)[Math.max(at, 0)]).textContent);
    }
    return undefined;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea, dialog")) {
      event.preventDefault();
      input.focus();
    }
  });
}

// -- start ---------------------------------------------------------------------------------------

document.addEventListener("submit", submitted);
document.addEventListener("click", (event) => {
  if (event.target.closest(".dismiss")) event.target.closest(".message").remove();
  if (event.target.closest("dialog .close") || event.target.id === "dialog") $("#dialog").close();
});
$("#newer").addEventListener("click", toEnd);
scroller.addEventListener("scroll", () => { if (nearEnd()) $("#newer").hidden = true; });

const theme = $(".theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("color-scheme").trim();
  const now = dark === "light" || dark === "dark" ? dark : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

localTimes(document);
countOpen();
completion($("#composer"));
listen();
setInterval(nowSoon, 60_000);
document.addEventListener("visibilitychange", nowSoon);
if (messages && !location.hash) toEnd();
document.body.classList.add("ready");
