// Keeps a page up to date by the server's events, and says at once when they stop.

import { $, $$, fragment, localTimes, redraw, shortTime, still, tell } from "./page.js";
import { SILENT_MS, leads, leave, listen, revive } from "./stream.js";

const messages = $("#messages");
const scroller = $("#scroll");
const FILL_MS = 300_000;

// -- the newest message --------------------------------------------------------------------------

export function nearEnd() {
  const newest = $("#messages > .slot:last-of-type");
  const read = newest && scroller.scrollTop >= newest.offsetTop - scroller.offsetTop - 2;
  return Boolean(read) || scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 160;
}

// A newest message taller than the view is shown from its first line, which says what and how much, not from its last button.
export function toEnd() {
  const newest = $("#messages > .slot:last-of-type");
  const answered = $("#answers")?.childElementCount;
  const tall = newest && !answered && newest.offsetHeight > scroller.clientHeight;
  scroller.scrollTo({ top: tall ? newest.offsetTop - scroller.offsetTop : scroller.scrollHeight });
  $("#newer").hidden = true;
}

function newSlot(id) {
  const slot = document.createElement("section");
  slot.className = "slot";
  slot.id = id;
  slot.innerHTML = '<div class="live"></div><div class="answers"></div>';
  messages.append(slot);
  return slot;
}

function showMessage({ id, channel, html }) {
  if (!messages || messages.dataset.channel !== channel) return;
  const known = document.getElementById(id);
  if (!known && "past" in messages.dataset) return; // what is new does not follow on what is shown here
  const stay = !nearEnd();
  $("#empty").hidden = true;
  const slot = known ?? newSlot(id);
  const live = $(".live", slot);
  if (!redraw(live, fragment(html))) return;
  live.classList.remove("changed");
  void live.offsetWidth; // restarts the highlight
  live.classList.add("changed");
  tell(`${known ? "Changed" : "New"}: ${$("h2", live)?.textContent ?? ""}`);
  if (known) return;
  if (stay) $("#newer").hidden = false;
  else toEnd();
}

// -- desktop notifications, if chosen ---------------------------------------------------------

const bell = $(".bell");
const wanted = () => globalThis.Notification?.permission === "granted" && localStorage.getItem("notify") === "1";

function notify({ id, html, posted }) {
  if (!posted || !document.hidden || !leads() || !wanted()) return;
  const message = fragment(html);
  const body = $$(".card .text", message).slice(0, 2).map((words) => words.textContent.trim()).join("\n");
  const note = new Notification($("h2", message)?.textContent.trim() ?? "trnbot", { body, tag: id, icon: $(".brand img").src });
  note.addEventListener("click", () => { window.focus(); location.assign(`/?until=${encodeURIComponent(id)}#${id}`); note.close(); });
}

function showBell() {
  bell.hidden = !globalThis.Notification || Notification.permission === "denied";
  bell.setAttribute("aria-pressed", String(wanted()));
}

async function ring() {
  if (wanted()) localStorage.removeItem("notify");
  else if ((await Notification.requestPermission()) === "granted") localStorage.setItem("notify", "1");
  showBell();
  tell(wanted() ? "New messages notify you while this page is not in front." : "New messages no longer notify you.");
}

// -- the page, read again ------------------------------------------------------------------------

const follows = () => Boolean($("#now") || $("[data-follows]"));
let soon = 0;

// The strip, the header and the messages follow events and the clock: all from the same reading.
export function nowSoon() {
  clearTimeout(soon);
  soon = setTimeout(() => { if (follows() && !document.hidden) readAgain().catch(() => {}); }, 400);
}

const read = new Map($$("#messages > .slot").map((slot) => [slot.id, $(".live", slot).innerHTML]));

export async function readAgain() {
  const answer = await fetch(location.href);
  if (!answer.headers.get("Content-Type")?.startsWith("text/html")) return; // a failed answer is a page too
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const slot of $$("#messages > .slot", page)) showRead(slot);
  for (const id of ["now", "page"]) {
    const [own, fresh] = [document.getElementById(id), page.getElementById(id)];
    if (own && fresh) redraw(own, fragment(fresh.innerHTML));
  }
  for (const fact of $$("#status [data-fact]")) {
    const own = $(`#status [data-fact="${fact.dataset.fact}"]`, page);
    if (own) fact.replaceWith(own);
  }
  countOpen();
  document.body.dataset.version = page.body.dataset.version;
}

// Parts that the page's frame did not wait for.
async function fillIn() {
  if (document.hidden) return;
  for (const place of $$("[data-from]")) {
    const answer = await fetch(place.dataset.from);
    if (answer.ok && !answer.redirected) redraw(place, fragment((await answer.text()).trim()));
    place.removeAttribute("aria-busy");
  }
}

function showRead(slot) {
  const html = $(".live", slot).innerHTML;
  if (read.get(slot.id) === html) return;
  const known = document.getElementById(slot.id);
  if (known && read.has(slot.id)) redraw($(".live", known), fragment(html)); // its dollars have moved on, and no more
  else showMessage({ id: slot.id, channel: messages.dataset.channel, html });
  read.set(slot.id, html);
}

// -- the header ----------------------------------------------------------------------------------

const facts = (root) => $$("[data-fact]", root).map((fact) => fact.outerHTML).join();
let told = "";

// A page that shows alerts keeps the header's figures from its own reading; if they have changed, it is read again.
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
  const [before, now] = [$("#status .banner")?.className, $(".banner", fresh)];
  if (now && now.className !== before) tell(now.textContent);
  $("#status").replaceChildren(fresh);
  countOpen();
}

export function countOpen() {
  const open = Number($("[data-open]")?.dataset.open ?? 0);
  const badge = $("[data-count]");
  badge.textContent = String(open);
  badge.hidden = open === 0;
  document.title = document.title.replace(/^\(\d+\) /, "");
  if (open) document.title = `(${open}) ${document.title}`;
}

// -- the stream ----------------------------------------------------------------------------------

let heardAt = Date.now();
let lostAt = null;

function heard() {
  heardAt = Date.now();
  if (!lostAt) return;
  lostAt = null;
  document.body.classList.remove("offline");
  $("#offline").hidden = true;
  tell("The console is answering again.");
}

// No answer, or no event for too long: the page may be out of date, and says so.
export function lost() {
  if (lostAt) return;
  lostAt = new Date(heardAt);
  document.body.classList.add("offline");
  document.body.classList.remove("live");
  const state = $("#status .state");
  if (state) state.lastChild.textContent = "Not connected";
  const note = $("#offline");
  note.textContent = `The console does not answer. This page is as of ${shortTime(lostAt)}; it tries again every few seconds.`;
  note.hidden = false;
}

function signedOut() {
  const link = document.createElement("a");
  link.href = "/login";
  link.textContent = "Sign in";
  $("#offline").replaceChildren("You are signed out, so this page is no longer updated. ", link);
}

const on = {
  hello({ version }) { // whatever came between the page and this stream is read again
    document.body.classList.add("live");
    if (follows() && version !== document.body.dataset.version) readAgain().catch(() => {});
  },
  message(message) {
    document.body.dataset.version = message.version;
    showMessage(message);
    notify(message);
    nowSoon();
  },
  status: showStatus,
  beat() {},
};

function hear(kind, data) {
  if (kind === "lost") return lost();
  if (kind === "refused") { lost(); return signedOut(); }
  heard();
  return on[kind](JSON.parse(data));
}

// A connection that died silently: a sleeping machine, a lost network.
function watch() {
  if (document.hidden || Date.now() - heardAt < SILENT_MS) return;
  lost();
  revive();
}

export function start() {
  countOpen();
  showBell();
  bell.addEventListener("click", ring);
  listen(hear);
  setInterval(watch, 1_000);
  setInterval(nowSoon, 60_000);
  fillIn().catch(() => {});
  setInterval(() => fillIn().catch(() => {}), FILL_MS);
  addEventListener("offline", lost);
  addEventListener("pagehide", leave); // who leaves is not disconnected
  addEventListener("pageshow", (event) => { if (event.persisted) listen(hear); });
  document.addEventListener("visibilitychange", nowSoon);
  $("#newer").addEventListener("click", toEnd);
  scroller.addEventListener("scroll", () => { if (nearEnd()) $("#newer").hidden = true; });
  if (messages && !location.hash) toEnd();
}
