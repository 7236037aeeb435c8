// Lets tables be sorted by a press on a column's name, and long ones be filtered. Without it they stand in the answer's order.

const UNITS = { s: 1, sec: 1, min: 60, h: 3600, d: 86400, w: 604800 };
const LONG = 8; // rows from which a filter is worth its place

// A cell's worth: "1 d 11 h" in seconds, "$2,843", "~$20", "-12 %" as numbers, else its words.
function worth(cell) {
  const words = cell.textContent.trim();
  const spans = [...words.matchAll(/(\d+(?:\.\d+)?) (d|h|min|s|w)\b/g)];
  if (spans.length && words.replace(/(\d+(?:\.\d+)?) (d|h|min|s|w)\b|\s/g, "") === "") {
    return spans.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit], 0);
  }
  const number = words.replace(/,/g, "").match(/^[~≈+]?(-?)\$?(-?\d+(?:\.\d+)?)/);
  return number ? Number(number[1] + number[2]) : words === "" || words === "–" || words === "?" ? null : words.toLowerCase();
}

function compare(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is not known stands last
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(table, at) {
  const head = table.tHead.rows[0].cells[at];
  const before = head.getAttribute("aria-sort");
  const down = before ? before === "ascending" : head.classList.contains("right"); // of numbers the largest first
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [row.cells[at] ? worth(row.cells[at]) : null, row]);
  const sign = (a, b) => (a[0] === null || b[0] === null || !down ? compare(a[0], b[0]) : compare(b[0], a[0]));
  body.append(...rows.sort(sign).map(([, row]) => row));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

function filtered(table) {
  const bar = document.createElement("div");
  bar.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter rows");
  const told = document.createElement("small");
  told.setAttribute("role", "status");
  const rows = [...table.tBodies[0].rows];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    told.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  });
  bar.append(input, told);
  table.parentElement.before(bar);
  bar.parentElement.classList.contains("beside") && table.parentElement.prepend(bar);
}

export function ready(root) {
  for (const table of root.querySelectorAll(".table table:not([data-ready])")) {
    table.dataset.ready = "";
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((cell, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.title = `Sort by ${cell.textContent}`;
      button.addEventListener("click", () => sort(table, at));
      if (cell.textContent) cell.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length > LONG && table.closest(".page")) filtered(table);
  }
}

ready(document);
new MutationObserver(() => ready(document)).observe(document.body, { childList: true, subtree: true });
