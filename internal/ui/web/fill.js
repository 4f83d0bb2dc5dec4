// The fill of a pool over time: one line, and the same in words.
import { ask } from "./app.js";
import { el } from "./dom.js";

const width = 720, height = 100, hour = 3600, over = 30 * 24 * hour;

function svg(tag, props, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// fillOverTime asks for the data after the rest of the page is shown.
export function fillOverTime(name, observedAt) {
  const words = el("figcaption", { id: "fill-words" }, "Prometheus is asked.");
  const box = el("figure", { class: "fill" }, words);
  ask("fill", name).then((text) => {
    const points = JSON.parse(text);
    words.textContent = inWords(points);
    if (points.length > 1) box.prepend(line(points, Date.parse(observedAt) / 1000 - over));
  }, (error) => { words.textContent = error.message; });
  return box;
}

const percent = (part) => Math.floor(100 * part) + "%"; // a full pool alone has 100%
const day = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ") + " UTC";

function inWords(points) {
  if (points.length === 0) return "Prometheus has no data of this pool's fill (ip_reconcile_pool_addresses).";
  const [first, last] = [points[0], points.at(-1)], all = points.map((p) => p[1]);
  return `From ${percent(first[1])} at ${day(first[0])} to ${percent(last[1])} at ${day(last[0])}; ` +
    `minimum ${percent(Math.min(...all))}, maximum ${percent(Math.max(...all))}.`;
}

// line is interrupted where samples are missing, of which there is one in 4 hours.
function line(points, from) {
  let before = -Infinity;
  const path = points.map(([at, part]) => {
    const move = at - before > 8 * hour ? "M" : "L";
    before = at;
    return `${move}${(width * (at - from) / over).toFixed(1)} ${(height * (1 - part)).toFixed(1)}`;
  }).join("");
  return svg("svg", { viewBox: `0 -2 ${width} ${height + 4}`, preserveAspectRatio: "none", role: "img",
    "aria-labelledby": "fill-words" }, svg("path", { class: "frame", d: `M0 0H${width}M0 ${height}H${width}` }),
  svg("path", { d: path }));
}
