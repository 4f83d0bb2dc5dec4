import { el } from "./dom.js";
export function pool(d, name) { return [el("h1", {}, name), el("pre", {}, JSON.stringify(d.pool, null, 1))]; }
