// Zooms a chart over time: a drag across it shows only that time; the button, a double press or Escape shows all of it again.

const LEAST = 3; // percent of a chart that a drag must cover: a press that slips a little zooms nothing
const TICKS = 5;
const AT_TIMES = ":scope > .incident, :scope > .onset, :scope > .onset-label, :scope > .hit, :scope > a > .hit, :scope > circle";
const views = new WeakMap(); // by chart: from where to where, in percent of all of it
let drag = null;

const viewOf = (chart) => views.get(chart) ?? [0, 100];

// Where a part was before any zoom, and how wide, in percent.
function stood(part) {
  part.dataset.x ??= part.getAttribute("cx") ?? part.getAttribute("x1") ?? part.getAttribute("x");
  part.dataset.width ??= part.getAttribute("width") ?? "0";
  return [parseFloat(part.dataset.x), parseFloat(part.dataset.width)];
}

function place(part, from, to) {
  const [x, width] = stood(part);
  const [left, right] = [x, x + width].map((at) => (at - from) / (to - from) * 100);
  part.classList.toggle("off", right < 0 || left > 100 || (width > 0 && (right === 0 || left === 100)));
  const [begin, end] = [Math.max(0, left), Math.min(100, right)];
  const names = { circle: ["cx"], line: ["x1", "x2"] }[part.tagName] ?? ["x"];
  for (const name of names) part.setAttribute(name, `${width ? begin : left}%`);
  if (width) part.setAttribute("width", `${Math.max(0, end - begin)}%`);
}

// "Nov 14, 10:25 UTC · 21 %": the day and the hour of a column.
function timeOf(hit) {
  return (hit.dataset.words ?? hit.textContent).match(/^(\w+ \d+), (\d\d:\d\d) UTC/) ?? [];
}

function clock(chart) {
  const hits = [...chart.querySelectorAll(".hit:not(.off)")];
  const few = Math.min(TICKS, hits.length);
  const some = [...Array(few).keys()].map((i) => hits[Math.round((i + 0.5) * hits.length / few - 0.5)]);
  const days = new Set(some.map((hit) => timeOf(hit)[1])).size;
  for (const hit of some) {
    const [, day, hour] = timeOf(hit);
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    const middle = parseFloat(hit.getAttribute("x")) + parseFloat(hit.getAttribute("width")) / 2;
    for (const [name, value] of [["class", "tick zoomed"], ["x", `${middle}%`], ["y", "100%"], ["dy", "18"], ["text-anchor", "middle"]]) text.setAttribute(name, value);
    text.textContent = days > 2 ? day : hour;
    chart.append(text);
  }
}

function show(chart, from, to) {
  const all = from <= 0 && to >= 100;
  views.set(chart, [from, to]);
  for (const tick of chart.querySelectorAll(".tick.zoomed")) tick.remove();
  for (const part of chart.querySelectorAll(AT_TIMES)) place(part, from, to);
  for (const part of chart.querySelectorAll(":scope > .tick[text-anchor=middle]")) part.classList.toggle("off", !all);
  for (const part of chart.querySelectorAll(":scope > .now")) part.classList.toggle("off", to < 100);
  chart.querySelector(".plot").setAttribute("viewBox", `${from * 10} 0 ${(to - from) * 10} 100`);
  chart.classList.toggle("zoomed", !all);
  if (!all) clock(chart);
  back(chart, all);
}

function back(chart, all) {
  const figure = chart.closest("figure");
  let button = figure.querySelector(":scope > .back");
  if (all) {
    button?.remove();
    return;
  }
  if (button) return;
  button = document.createElement("button");
  button.type = "button";
  button.className = "back";
  button.textContent = "Show all";
  button.addEventListener("click", () => show(chart, 0, 100));
  figure.append(button);
}

function shareOf(chart, event) {
  const area = chart.getBoundingClientRect();
  return Math.min(100, Math.max(0, (event.clientX - area.left) / area.width * 100));
}

function marked(event) {
  const { chart, begin, band } = drag;
  const [area, around] = [chart.getBoundingClientRect(), chart.closest("figure").getBoundingClientRect()];
  const [low, high] = [begin, shareOf(chart, event)].sort((a, b) => a - b);
  band.style.left = `${area.left - around.left + low / 100 * area.width}px`;
  band.style.width = `${(high - low) / 100 * area.width}px`;
  band.style.top = `${area.top - around.top}px`;
  band.style.height = `${area.height}px`;
  return [low, high];
}

document.addEventListener("pointerdown", (event) => {
  const chart = event.target.closest?.(".chart.line");
  if (!chart || event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return; // a finger scrolls
  event.preventDefault(); // no words are selected meanwhile
  const band = document.createElement("div");
  band.className = "band";
  chart.closest("figure").append(band);
  drag = { chart, band, begin: shareOf(chart, event) };
  marked(event);
});
document.addEventListener("pointermove", (event) => {
  if (drag) marked(event);
});
document.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const [low, high] = marked(event);
  const { chart, band } = drag;
  const [from, to] = viewOf(chart);
  band.remove();
  drag = null;
  if (high - low >= LEAST) show(chart, from + low / 100 * (to - from), from + high / 100 * (to - from));
});
document.addEventListener("pointercancel", () => {
  drag?.band.remove();
  drag = null;
});
document.addEventListener("dblclick", (event) => {
  const chart = event.target.closest?.(".chart.line.zoomed");
  if (chart) show(chart, 0, 100);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const chart of document.querySelectorAll(".chart.zoomed")) show(chart, 0, 100);
});
