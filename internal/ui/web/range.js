// The definitions of a pool, what lies outside of them, and the form that asks what another range would mean.
import { ask } from "./app.js";
import { command, el, explainLink, list, short, table } from "./dom.js";

const more = (n, what) => n > 0 && el("p", {}, `And ${n} more ${what}.`);

export const definitions = (d) => d.definitions.length === 0 ? el("p", {}, "No definition that could be read assigns from this pool.") :
  [table("Definitions", ["Definition", "network_name", "Range", "From", "To", "Excluded", "Overlaps"],
    d.definitions.map((x) => [x.definition, x.network, x.node ? `${x.range}, the slice of ${x.node}` : x.range, x.start, x.end,
      x.exclude.join(", ") + (x.moreExcluded ? ` and ${x.moreExcluded} more` : ""), x.overlappingRanges ? "checked" : "not checked"])),
  more(d.moreDefinitions, "ranges")];

export const outside = (d) => d.outside.length > 0 && [list(d.outside.map((f) => [f.ip && [explainLink(f.ip), ": "], short(f.message)]), 100),
  more(d.moreOutside, "addresses")];

const fields = [["range", "New range"], ["start", "First address"], ["end", "Last address"], ["exclude", "Excluded, separated by commas"],
  ["add", "More pods"]];

// What is typed, and the answer, stay when newer data is shown.
let typed = { pool: "" };

export function change(pool, today) {
  if (typed.pool !== pool) typed = { pool, values: { range: today?.range || "", start: today?.start || "", end: today?.end || "",
    exclude: today && !today.moreExcluded ? today.exclude.join(",") : "" } };
  const mine = typed, said = el("div", { role: "status", id: "change-answer" }, mine.answer);
  const answer = (...content) => {
    mine.answer = content;
    if (typed === mine) document.getElementById("change-answer")?.replaceChildren(...content);
  };
  return [el("p", {}, "See what another range would mean, before you edit a definition. Nothing is written."),
    el("form", { class: "change", onsubmit: async (e) => {
      e.preventDefault();
      answer(el("p", {}, "Asking …"));
      try {
        const d = JSON.parse(await ask("range", pool, mine.values));
        answer(el("pre", { tabindex: "0", "aria-label": "Answer" }, short(d.text)), command(d.command));
      } catch (error) {
        answer(el("p", { class: "problem" }, error.message));
      }
    } }, fields.map(([name, label]) => {
      const input = el("input", { id: "change-" + name, maxlength: "400", autocomplete: "off", required: name === "range",
        inputmode: name === "add" && "numeric", oninput: () => { mine.values[name] = input.value; } });
      input.value = mine.values[name] || "";
      return el("p", {}, el("label", { for: input.id }, label), " ", input);
    }), el("button", { id: "change-ask" }, "Check")), said];
}
