// Makes the console live: events, pressed buttons, forms in a dialog, completion, times in the reader's zone.
// Everything here is an addition: without it the pages work by plain links and forms.

import { completion } from "./complete.js";
import { start as follow } from "./live.js";
import { $, localTimes, reachable } from "./page.js";
import { start as press } from "./press.js";

// -- start ---------------------------------------------------------------------------------------

const theme = $(".theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("color-scheme").trim();
  const now = dark === "light" || dark === "dark" ? dark : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

localTimes(document);
reachable();
addEventListener("resize", () => reachable());
completion($("#composer"));
press();
follow();
document.body.classList.add("ready");
