// The page: which view is shown, the data of it, and the connection that reports newer data.
import { el } from "./dom.js";
import { overview } from "./overview.js";
import { pool } from "./map.js";
import { explain, history } from "./explain.js";

const main = document.getElementById("main");
const time = document.getElementById("time");
const state = document.getElementById("connection");
let newest = { time: "", problem: "", received: 0 };
let shown = "", shownText = "";
let redraw = null; // what is shown, drawn again

const views = { "": ["overview", overview], pool: ["pool", pool], explain: ["explain", explain], history: ["history", history] };

// The URL that 'ip-reconcile ui' prints ends with the token, and a view may follow. The token stays in this tab, and is
// in no request but those of this page.
const given = location.hash.match(/^#token=([^#]*)(#.*)?$/);
if (given) {
  sessionStorage.setItem("token", given[1]);
  window.history.replaceState(null, "", location.pathname + (given[2] || ""));
}

// ask asks for the answer to a question, as text. Behind a Service another replica may have it. Without an answer, as
// after a change of this machine's network, it asks again each second.
export async function ask(question, subject = "", fields = {}, attempts = 6) {
  const query = new URLSearchParams({ ...fields, subject }), again = () => ask(question, subject, fields, attempts - 1);
  let answer, text;
  try {
    answer = await fetch(`data/${question}?${query}`, { headers: authorization() });
    text = await answer.text();
  } catch (error) {
    if (attempts === 1) throw new Error(`The server does not answer: ${error.message}`);
    await new Promise((done) => setTimeout(done, 1000));
    return again();
  }
  if (answer.status === 401 || answer.status === 403) throw new Refused(text);
  if (answer.status === 503 && attempts > 1) return again();
  if (!answer.ok) throw new Error(JSON.parse(text).error);
  return text;
}

class Refused extends Error {}

function authorization() {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: "Bearer " + token } : {};
}

function route() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let subject = rest.join("/");
  try { subject = decodeURIComponent(subject); } catch { /* it is shown as it is */ }
  return { view: views[view] ? view : "", subject };
}

// show shows the current view. isNew is true for another view than before, which begins at its top.
async function show(isNew) {
  const at = location.hash, { view, subject } = route(), [question, draw] = views[view];
  const token = sessionStorage.getItem("token");
  main.setAttribute("aria-busy", "true");
  let text, content;
  try {
    text = await ask(question, subject);
    if (at !== location.hash) return;
    const same = text.replace(/"(observedAt|knownForSeconds|ageSeconds)":("[^"]*"|\d+)/g, "").replace(/at \d[^ ]*Z\.\\n/, "");
    if (!isNew && shown === at && same === shownText) return;
    [shown, shownText] = [at, same];
    redraw = () => draw(JSON.parse(text), subject, state.textContent);
    content = redraw();
  } catch (error) {
    if (at !== location.hash) return;
    if (error instanceof Refused) {
      if (token !== sessionStorage.getItem("token")) return; // it was replaced meanwhile
      if (!isNew && document.getElementById("token")) return; // somebody may be typing one
    }
    [shown, shownText, redraw] = [at, "", null];
    content = error instanceof Refused ? [signIn(error)] : [el("h1", {}, subject || "ip-reconcile"),
      el("p", { class: "problem" }, error.message)];
  } finally {
    main.removeAttribute("aria-busy");
  }
  replace(content, isNew);
}

// replace replaces the content, and keeps the focus, where a person types, and what is open.
function replace(content, isNew) {
  const key = (e) => e && (e.id || e.getAttribute("href"));
  const active = document.activeElement, focused = main.contains(active) && key(active);
  const { selectionStart, selectionEnd } = active;
  const open = [...main.querySelectorAll("details[open]")].map((d) => d.id);
  main.replaceChildren(...content.flat().filter(Boolean));
  const title = main.querySelector("h1");
  document.title = title ? title.textContent + " – ip-reconcile" : "ip-reconcile";
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.getAttribute("href") === "#/" + route().view);
  }
  if (isNew) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
    return;
  }
  for (const d of main.querySelectorAll("details")) if (open.includes(d.id)) d.open = true;
  const again = [...main.querySelectorAll("a, button, canvas, code, summary, input")].find((e) => focused && key(e) === focused);
  again?.focus({ preventScroll: true });
  if (selectionEnd) again?.setSelectionRange?.(selectionStart, selectionEnd);
}

// signIn asks for a token, where the page is served with authentication and nothing before it adds one.
function signIn(error) {
  const token = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  return el("form", {
    onsubmit: (e) => {
      e.preventDefault();
      sessionStorage.setItem("token", token.value.trim());
      connect();
      show(true);
    },
  }, el("h1", {}, "Sign in"), el("p", { class: "problem" }, error.message),
  el("p", {}, "Paste the token in the URL that 'ip-reconcile ui' has printed. Where 'serve --ui' serves the page, paste " +
    "one of an account that may get the nonResourceURL /ui/*, which 'kubectl create token' prints. It is kept until this tab is closed."),
  el("label", { for: "token" }, "Token"), token, el("button", {}, "Sign in"));
}

// The connection. Each event has the time of the newest data.
let current = null;

async function connect() {
  current?.abort();
  const mine = current = new AbortController();
  for (let wait = 1; current === mine; wait = Math.min(2 * wait, 10)) {
    try {
      await listen(mine, () => { wait = 1; });
      throw new Error("the server has ended the connection");
    } catch (error) {
      if (current !== mine) return;
      if (error instanceof Refused) return show(false); // which asks for a token
      lost(error);
    }
    await new Promise((done) => setTimeout(done, 1000 * wait));
  }
}

async function listen(mine, onEvent) {
  const attempt = new AbortController();
  mine.signal.addEventListener("abort", () => attempt.abort());
  let watchdog;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => attempt.abort(), 40000); // the server gives a sign of life every 15 s
  };
  try {
    alive();
    const answer = await fetch("events", { headers: authorization(), signal: attempt.signal });
    if (answer.status === 401 || answer.status === 403) throw new Refused(await answer.text());
    if (!answer.ok) throw new Error(await answer.text());
    let rest = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part; !(part = await reader.read()).done;) {
      alive();
      const events = (rest + part.value).split("\n\n");
      rest = events.pop();
      for (const e of events) if (e.startsWith("data: ")) { onEvent(); received(JSON.parse(e.slice(6))); }
    }
  } finally {
    clearTimeout(watchdog);
    attempt.abort();
  }
}

function received(event) {
  const isNewer = event.time !== newest.time, wasLost = state.textContent !== "";
  newest = { ...event, received: Date.now() };
  document.getElementById("to-history").hidden = event.isSnapshot;
  say(event.problem || "");
  document.body.classList.remove("lost");
  tick();
  if (isNewer || wasLost) show(false);
}

function lost(error) {
  document.body.classList.add("lost");
  say(`Connection lost (${error.message}). Trying again; what is shown may be old.`);
}

// say says why what is shown may be old, "" for no reason. The overview, which says that everything works, says it, too.
function say(text) {
  if (state.textContent === text) return;
  state.textContent = text;
  if (redraw && route().view === "" && shown === location.hash) replace(redraw(), false);
}

function tick() {
  if (!newest.time) return;
  const at = newest.time.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
  const age = Math.round((newest.ageSeconds || 0) + (Date.now() - newest.received) / 1000);
  const ago = age < 120 ? `${age} s` : age < 7200 ? `${Math.round(age / 60)} min` : `${Math.round(age / 3600)} h`;
  time.textContent = newest.isSnapshot ? `Snapshot, judged at ${at}` : `Judged at ${at}, ${ago} ago`;
  time.classList.toggle("old", !newest.isSnapshot && age > 120);
}

document.getElementById("find").addEventListener("submit", (e) => {
  e.preventDefault();
  const text = document.getElementById("subject").value.trim();
  if (text) location.hash = "#/explain/" + encodeURIComponent(text);
});
addEventListener("hashchange", () => show(true));
setInterval(tick, 1000);
connect();
show(true);
