// Completes a typed line from the registry: commands, their examples, their arguments.

import { asked, recall } from "./asked.js";
import { $, $$, commands } from "./page.js";

const MOST = 8;

// How well words match what is typed, 0 is best; infinite if they do not.
export function fit(words, typed) {
  if (words.startsWith(typed)) return 0;
  if (words.split(/[\s.=_-]+/).some((word) => word.startsWith(typed))) return 1;
  if (words.includes(typed)) return 2;
  return typed.split(/\s+/).every((word) => words.includes(word)) ? 3 : Infinity;
}

// How often this browser asked lines of each command lately.
export function used() {
  const lines = asked();
  return (name) => lines.filter((line) => line === name || line.startsWith(`${name} `)).length;
}

// The most asked command comes first, then help's order, then the shorter name.
function byUse(hints) {
  const uses = used();
  return [...hints].sort((a, b) => uses(b.name) - uses(a.name) || a.place - b.place || a.name.length - b.name.length);
}

// Possible completions of the line, each with its meaning: commands, then examples and arguments of the one that is typed.
function fitting(hints, typed) {
  const lower = typed.toLowerCase();
  const longest = (a, b) => b.name.length - a.name.length;
  const named = hints.filter((hint) => lower.startsWith(`${hint.name} `)).sort(longest)[0];
  const begun = byUse(hints.filter((hint) => hint.name.startsWith(lower) || hint.example.toLowerCase().startsWith(lower)));
  const commands = begun.map((hint) => [hint.needed ? `${hint.name} ` : hint.example, hint.summary]);
  if (!named) return commands;
  const examples = (named.examples ?? []).filter((line) => line.toLowerCase().startsWith(lower)).map((line) => [line, named.summary]);
  const [, before, word] = typed.match(/^(.*\s)(\S*)$/s);
  const free = (named.arguments ?? []).filter(([words]) => words.startsWith(word.toLowerCase()) && !before.includes(` ${words.split("=")[0]}=`));
  const lines = [...commands, ...examples, ...free.map(([words, meaning]) => [before + words, meaning])];
  return lines.filter(([line], i) => line !== typed && lines.findIndex(([other]) => other === line) === i);
}

export function completion(composer) {
  const input = $("#line", composer);
  const list = $("#complete", composer);
  let at = -1;
  input.removeAttribute("list"); // the plain browser's list gives way to this one

  function fill(words) {
    input.value = words;
    close();
    input.focus();
    if (/[ =]$/.test(words)) open(); // something must follow
  }
  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function choose(step) {
    const options = $$("li", list);
    at = (at + step + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }
  async function open() {
    const begun = input.value;
    const every = await commands();
    if (document.activeElement !== input || input.value !== begun) return;
    const typed = input.value.replace(/^\/?trn\s+/i, "").trimStart().toLowerCase();
    const lines = fitting(every, typed);
    if (!lines.length || lines.some(([line]) => line === typed)) { close(); return; }
    list.replaceChildren(...lines.slice(0, MOST).map(([line, meaning], i) => {
      const option = document.createElement("li");
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.id = `complete-${i}`;
      const words = document.createElement("code");
      words.textContent = line;
      const summary = document.createElement("span");
      summary.textContent = meaning;
      option.append(words, summary);
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); fill(line); });
      return option;
    }));
    at = -1;
    input.removeAttribute("aria-activedescendant");
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }
  recall(input, (line) => { input.value = line; close(); });
  input.addEventListener("input", open);
  input.addEventListener("focus", () => { if (input.value) commands(); else open(); });
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
