// Remembers what a reader asked in this browser, to ask it again.

const MOST = 30;
const KEY = "asked";

export function asked() {
  try {
    const lines = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(lines) ? lines.filter((line) => typeof line === "string") : [];
  } catch {
    return []; // somebody else's words under our name
  }
}

function remember(line) {
  const lines = [line, ...asked().filter((other) => other !== line)].slice(0, MOST);
  localStorage.setItem(KEY, JSON.stringify(lines));
}

// Where any line is answered.
export const addressOf = (line) => `/ask?line=${encodeURIComponent(line)}`;

function list(section) {
  const lines = asked().slice(0, 12);
  section.querySelector("ul").replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const words = document.createElement("code");
    link.href = addressOf(line);
    words.textContent = line;
    link.append(words);
    item.append(link);
    return item;
  }));
  section.hidden = !lines.length;
}

// While nothing is typed, the arrows go through earlier lines; `show` closes the list of commands and sets the line.
export function recall(input, show) {
  let at = -1;
  input.addEventListener("input", () => { at = -1; });
  input.addEventListener("keydown", (event) => {
    const lines = asked();
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step || (input.value && at < 0) || at + step >= lines.length || at + step < -1) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    at += step;
    show(lines[at] ?? "");
  }, { capture: true });
}

document.addEventListener("submit", (event) => {
  const line = event.target.id === "composer" && event.target.elements.line.value.trim();
  if (line) remember(line);
}, { capture: true });

const section = document.querySelector("#asked");
if (section) list(section);
