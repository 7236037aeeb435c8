// One stream of events for all tabs of a browser: a browser opens at most six connections to a host, and each stream uses one.
// The tab that holds a lock listens and passes events on. Where there are no locks (plain HTTP to another machine),
// every tab listens for itself, and stops while it is hidden.

export const SILENT_MS = 11_000; // the server says something every four seconds, whatever happens
const RETRY_MS = 2_000;
const NAME = "trnbot-events";
const KINDS = ["hello", "message", "status", "beat"];
const shares = Boolean(navigator.locks && globalThis.BroadcastChannel);

let hear = () => {}; // this page's own ear
let tabs = null; // the channel to the other tabs
let stream = null; // where this tab listens itself
let release = null; // gives the lock back
let passedAt = Date.now();
let last = {}; // what a tab that comes later is told

function pass(kind, data = "") {
  if (kind === "hello" || kind === "status") last[kind] = data;
  if (kind === "message") last.hello = JSON.stringify({ version: JSON.parse(data).version });
  passedAt = Date.now();
  tabs?.postMessage({ kind, data });
  hear(kind, data);
}

function passedOn({ data: { kind, data } }) {
  if (kind === "join") {
    for (const [each, said] of stream ? Object.entries(last) : []) tabs.postMessage({ kind: each, data: said });
    return;
  }
  passedAt = Date.now();
  hear(kind, data);
}

function open() {
  stream?.close();
  last = {};
  const own = stream = new EventSource("/events");
  for (const kind of KINDS) own.addEventListener(kind, (event) => pass(kind, event.data));
  own.addEventListener("error", () => {
    if (own !== stream) return;
    last = {};
    pass("lost");
    if (own.readyState === EventSource.CLOSED) setTimeout(() => reopen(own), RETRY_MS); // not while the page is being left
  });
}

// The browser does not reopen a refused stream: signed out, or a proxy without its server.
async function reopen(own) {
  const answer = await fetch("/now", { redirect: "manual" }).catch(() => null);
  if (own !== stream) return;
  if (!answer || !(answer.status === 401 || answer.type === "opaqueredirect")) return open();
  pass("refused");
  close();
  return release?.(); // to a tab that is opened once somebody has signed in
}

function close() {
  stream?.close();
  stream = null;
}

// Listens until another tab takes the lock, or this page is left.
function lead(steal) {
  const held = () => {
    open();
    return new Promise((resolve) => { release = resolve; });
  };
  const asked = navigator.locks.request(NAME, { steal }, () => (tabs ? held() : undefined));
  asked.catch(() => { // taken by a tab that heard nothing for long
    close();
    if (tabs) lead(false);
  });
}

function seen() {
  if (document.hidden) close();
  else if (!stream) open();
}

// Starts listening; `ear` gets each event's kind, and its data as JSON.
export function listen(ear) {
  hear = ear;
  if (!shares) {
    document.addEventListener("visibilitychange", seen);
    return seen();
  }
  tabs = new BroadcastChannel(NAME);
  tabs.addEventListener("message", passedOn);
  tabs.postMessage({ kind: "join" });
  return lead(false);
}

// No event for too long: reopens the stream, or takes the lock from a sleeping tab.
export function revive() {
  if (stream) {
    if (stream.readyState === EventSource.OPEN) open();
    return;
  }
  if (!shares || Date.now() - passedAt < SILENT_MS) return;
  passedAt = Date.now();
  lead(true);
}

// Whether this tab listens for all tabs.
export const leads = () => Boolean(stream);

export function leave() {
  close();
  document.removeEventListener("visibilitychange", seen);
  tabs?.close();
  tabs = null;
  release?.();
  release = null;
}
