// Lets tables be sorted by a press on a column's name, and those of more than a few rows be filtered; a page's address holds both.
// The server sorts, filters and cuts tables of several pages, so they are left alone here.

const UNITS = { s: 1, sec: 1, min: 60, h: 3600, d: 86400, w: 604800 };
const LONG = 8; // rows from which a filter is worth its place

// -- the address -----------------------------------------------------------------------------------

// The second table of a page has `sort.2` for `sort`, and so on.
function parameter(table, name) {
  const index = [...document.querySelectorAll(".page .table table")].indexOf(table);
  return index > 0 ? `${name}.${index + 1}` : name;
}

const inAddress = (table, name) => (table.closest(".page") ? new URLSearchParams(location.search).get(parameter(table, name)) : null) ?? "";

function keep(table, name, value) {
  if (!table.closest(".page")) return;
  const [address, key] = [new URL(location.href), parameter(table, name)];
  if ((address.searchParams.get(key) ?? "") === value) return;
  if (value) address.searchParams.set(key, value);
  else address.searchParams.delete(key);
  address.search = address.search.replaceAll("+", "%20"); // as the links of the pages write blanks
  history.replaceState(history.state, "", address);
}

// -- sorting ---------------------------------------------------------------------------------------

// The value of a cell: "1 d 11 h" in seconds, "$2,843", "~$20", "-12 %" as numbers, else its words.
function worth(cell) {
  const words = cell.textContent.trim();
  const spans = [...words.matchAll(/(\d+(?:\.\d+)?) (d|h|min|s|w)\b/g)];
  if (spans.length && words.replace(/(\d+(?:\.\d+)?) (d|h|min|s|w)\b|\s/g, "") === "") {
    return spans.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit], 0);
  }
  const number = words.replace(/,/g, "").match(/^[~≈+]?(-?)\$?(\d+(?:\.\d+)?)(?!\d*-\d)/);
  return number ? Number(number[1] + number[2]) : words === "" || words === "–" || words === "?" ? null : words.toLowerCase();
}

function compare(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is not known comes last
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(table, at, down) {
  const head = table.tHead.rows[0].cells[at];
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [row.cells[at] ? worth(row.cells[at]) : null, row]);
  const sign = (a, b) => (a[0] === null || b[0] === null || !down ? compare(a[0], b[0]) : compare(b[0], a[0]));
  body.append(...rows.sort(sign).map(([, row]) => row));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

function pressed(table, at) {
  const head = table.tHead.rows[0].cells[at];
  const before = head.getAttribute("aria-sort");
  const down = before ? before === "ascending" : head.classList.contains("right"); // of numbers the largest first
  sort(table, at, down);
  keep(table, "sort", `${down ? "-" : ""}${head.textContent}`);
}

// -- filtering -------------------------------------------------------------------------------------

const fits = (row, words) => words.every((word) => row.textContent.toLowerCase().includes(word));

// Shows the rows that fit the filter.
function show(table) {
  const { input, count } = table.bar;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const every = [...table.tBodies[0].rows];
  for (const row of every) row.hidden = !fits(row, words);
  if (table.tFoot) table.tFoot.hidden = words.length > 0; // the total is of every row, and would seem that of the filter
  count.textContent = words.length ? `${every.filter((row) => !row.hidden).length} of ${every.length} rows` : "";
  keep(table, "filter", input.value.trim());
}

function barOf(table) {
  const place = document.createElement("div");
  place.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter rows");
  input.addEventListener("input", () => show(table));
  const count = document.createElement("small");
  count.setAttribute("role", "status");
  place.append(input, count);
  table.parentElement.before(place);
  if (place.parentElement.classList.contains("beside")) table.parentElement.prepend(place);
  return { input, count };
}

export function ready(root) {
  for (const table of root.querySelectorAll(".table table:not([data-ready])")) {
    table.dataset.ready = "";
    if (table.tBodies[0].rows.length < 2) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((cell, at) => {
      const press = document.createElement("button");
      press.type = "button";
      press.textContent = cell.textContent;
      press.title = `Sort by ${cell.textContent}`;
      press.addEventListener("click", () => pressed(table, at));
      if (cell.textContent) cell.replaceChildren(press);
    });
    const sorted = inAddress(table, "sort");
    const at = heads.findIndex((cell) => cell.textContent && cell.textContent === sorted.replace(/^-/, ""));
    if (at >= 0) sort(table, at, sorted.startsWith("-"));
    if (table.tBodies[0].rows.length <= LONG || !table.closest(".page")) continue;
    table.bar = barOf(table);
    table.bar.input.value = inAddress(table, "filter");
    show(table);
  }
}

ready(document);
new MutationObserver(() => ready(document)).observe(document.body, { childList: true, subtree: true });
