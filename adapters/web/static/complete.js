// Completes a typed line from the registry's examples.

import { $, $$ } from "/static/page.js";

export function completion(composer) {
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
    input.removeAttribute("aria-activedescendant");
  }
  function choose(step) {
    const options = $$("li", list);
    at = (at + step + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }
  function open() {
    const typed = input.value.replace(/^\/?trn\s+/i, "").trimStart().toLowerCase();
    const fitting = hints.filter((hint) => hint.example.startsWith(typed) || hint.name.startsWith(typed));
    if (!fitting.length || fitting.some((hint) => hint.example === typed)) return close();
    list.replaceChildren(...fitting.slice(0, 8).map((hint, i) => {
      const option = document.createElement("li");
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.id = `complete-${i}`;
      const words = document.createElement("code");
      words.textContent = hint.example;
      const summary = document.createElement("span");
      summary.textContent = hint.summary;
      option.append(words, summary);
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); fill(hint.example); });
      return option;
    }));
    at = -1;
    input.removeAttribute("aria-activedescendant");
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
