// Shows the values under the pointer: a line through the plot and a box beside it. Without this script the browser shows each title.

function box(figure, name, tag) {
  let made = figure.querySelector(`:scope > .${name}`);
  if (!made) {
    made = document.createElement(tag);
    made.className = name;
    figure.append(made);
  }
  return made;
}

// "Nov 14 · research $21,400; speech $8,200": a heading, then one line per value, with its figure set apart.
function written(words) {
  const [head, ...rest] = words.split(" · ");
  const title = document.createElement("b");
  title.textContent = rest.length ? head : "";
  const values = (rest.length ? rest.join(" · ") : head).split("; ");
  return [title, ...values.map((value) => {
    const line = document.createElement("span");
    const parts = value.match(/^(.*\S) ([-~]?\$?[\d.,]+\S*(?: \S+)?|no reading)$/);
    const figure = document.createElement("em");
    figure.textContent = parts ? parts[2] : value;
    line.append(...(parts ? [parts[1], figure] : [figure]));
    return line;
  })];
}

function shown(hit) {
  const figure = hit.closest("figure");
  const title = hit.querySelector("title");
  if (title) { // our own box takes the place of the browser's slow one
    hit.dataset.words = title.textContent;
    title.remove();
  }
  const at = hit.getBoundingClientRect();
  const around = figure.getBoundingClientRect();
  const tip = box(figure, "tip", "div");
  tip.hidden = false;
  tip.replaceChildren(...written(hit.dataset.words));
  const middle = at.left - around.left + at.width / 2;
  const left = middle + tip.offsetWidth + 16 < around.width ? middle + 12 : middle - tip.offsetWidth - 12;
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${at.top - around.top + (hit.classList.contains("cell") ? at.height + 6 : 0)}px`;
  const cross = box(figure, "cross", "div");
  cross.hidden = !hit.closest(".chart.line");
  cross.style.left = `${middle}px`;
  cross.style.top = `${at.top - around.top}px`;
  cross.style.height = `${at.height}px`;
}

function hidden(figure) {
  for (const part of figure.querySelectorAll(":scope > .tip, :scope > .cross")) part.hidden = true;
}

document.addEventListener("pointerover", (event) => {
  const hit = event.target.closest?.(".hit");
  if (hit) shown(hit);
});
document.addEventListener("focusin", (event) => {
  const hit = event.target.querySelector?.(":scope > .hit");
  if (hit) shown(hit);
});
document.addEventListener("pointerout", (event) => {
  const figure = event.target.closest?.("figure");
  if (figure && !figure.contains(event.relatedTarget)) hidden(figure);
});
document.addEventListener("focusout", (event) => {
  const figure = event.target.closest?.("figure");
  if (figure) hidden(figure);
});
