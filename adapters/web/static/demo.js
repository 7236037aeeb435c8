// Keeps the story of a demonstration up to date, and restarts it: the page returns once the bot answers.

const story = document.querySelector("#demo");
const told = story.querySelector(".demo-told");
const EVERY_MS = 1500;

async function look() {
  if (document.hidden || story.hasAttribute("data-restarting")) return;
  const answer = await fetch("/demo", { headers: { "X-Trnbot": "1" } }).catch(() => null);
  if (!answer?.ok) return;
  const html = await answer.text();
  if (html !== told.dataset.shown) told.innerHTML = html; // made by the server, which escapes every text
  told.dataset.shown = html;
}

async function answers() {
  const answer = await fetch("/healthz").catch(() => null);
  return answer?.ok ?? false;
}

async function again(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  button.textContent = "Starting again…";
  story.setAttribute("data-restarting", "");
  await fetch("/demo", { method: "POST", headers: { "X-Trnbot": "1" } }).catch(() => null);
  while (await answers()) await new Promise((over) => setTimeout(over, 200));
  while (!(await answers())) await new Promise((over) => setTimeout(over, 400));
  location.assign("/");
}

const fold = story.querySelector(".fold");
fold.addEventListener("click", () => fold.setAttribute("aria-expanded", String(story.classList.toggle("open"))));
story.querySelector("form")?.addEventListener("submit", again);
setInterval(look, EVERY_MS);
