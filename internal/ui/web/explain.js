import { el } from "./dom.js";
export function explain(d, subject) { return [el("h1", {}, subject), el("pre", {}, d.text)]; }
export function history(d) { return [el("h1", {}, "History"), el("pre", {}, d.text)]; }
