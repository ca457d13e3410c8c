"use strict";

const token = document.querySelector('meta[name="codeinfo-token"]').content;

// --- every page ---------------------------------------------------------------------------------------------------

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CodeInfo-Token"] = token;
  if (event.detail.verb !== "get") return;
  for (const [name, value] of Object.entries(event.detail.parameters)) {
    if (value === "") delete event.detail.parameters[name]; // an address that people pass on says only what was chosen
  }
});

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const panel = document.getElementById("panel");
const keys = document.getElementById("keys");
let opener = null;
let shownPage = pageAddress();

// The address holds what is open beside the page, so that it can be passed on; without it, it names the page itself.
function pageAddress() {
  const address = new URL(location);
  address.searchParams.delete("panel");
  address.hash = "";
  return address.href;
}

function withPanel(beside) {
  const address = new URL(location);
  address.searchParams.delete("panel");
  if (beside) address.searchParams.set("panel", beside);
  return address;
}

// Each thing that was opened is a step of the history, so that Back leads to the one before and at last closes the panel.
// The state of a step says how many steps lie between it and the page.
function closePanel() {
  const steps = history.state?.steps;
  if (steps) history.go(-steps); // the popstate that follows empties the panel
  else {
    history.replaceState(history.state, "", withPanel(""));
    emptyPanel();
  }
}

function emptyPanel() {
  panel.replaceChildren();
  if (opener?.isConnected) opener.focus();
}

function openPanel(beside) {
  const steps = (panel.childElementCount && history.state?.steps) || 0;
  history.pushState({ steps: steps + 1 }, "", withPanel(beside));
}

function loadPanel(beside) {
  htmx.ajax("GET", beside, { target: panel, swap: "innerHTML" });
}

function syncPanel() {
  const beside = new URL(location).searchParams.get("panel");
  if (beside) loadPanel(beside);
  else if (panel.childElementCount) emptyPanel();
}

window.addEventListener("popstate", (event) => {
  const same = pageAddress() === shownPage;
  shownPage = pageAddress();
  if (!same) return; // htmx restores the page
  event.stopImmediatePropagation();
  syncPanel();
});

document.addEventListener("htmx:historyRestore", syncPanel);
document.addEventListener("htmx:pushedIntoHistory", () => (shownPage = pageAddress()));
if (panel.dataset.beside) addEventListener("load", () => loadPanel(panel.dataset.beside), { once: true });

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target !== panel || !event.detail.elt.matches("[hx-get]")) return;
  if (!panel.contains(event.detail.elt)) opener = event.detail.elt;
  openPanel(event.detail.elt.getAttribute("hx-get"));
});

document.addEventListener("htmx:afterSwap", (event) => {
  const target = event.detail.target;
  if (!target) return; // a page that htmx restored
  if (target === panel) {
    panel.scrollTop = 0;
    panel.querySelector("[data-close]")?.focus();
  }
  if (target.id === "results" && new URL(location).searchParams.get("q")) {
    if (event.detail.requestConfig.elt !== target) panel.replaceChildren(); // another search, not this page's own
    document.getElementById("slogan").classList.add("hidden");
    rememberSearch();
  }
  target.querySelector(":scope > .notice.outcome")?.scrollIntoView({ block: "center" }); // far above the form's button
  if (new URL(location).searchParams.get("mode")) target.querySelectorAll(".code").forEach(showMatch);
  if (target.id === "lines") showLine(location.hash);
  if (document.querySelector("[data-indexed]")) fill();
});

// The first match in a long line of an exact search would be beyond the edge.
function showMatch(code) {
  const [shown, match] = [code, code.querySelector("mark") ?? code].map((one) => one.getBoundingClientRect());
  if (match.right > shown.right) code.scrollLeft += match.left - shown.left - shown.width / 3;
}

// A page whose project has just been indexed loads what it shows; the outline of a file is outside of what fills it.
function fill() {
  document.querySelector("[data-indexed]").remove();
  if (document.querySelector("[data-fills=page]")) return location.reload();
  htmx.ajax("GET", location.pathname + location.search, { target: "[data-fills]", swap: "innerHTML" });
}

// --- what can be done with a result -------------------------------------------------------------------------------

const toast = document.getElementById("toast");
let shownUntil = 0;

function notify(text) {
  toast.textContent = text;
  clearTimeout(shownUntil);
  shownUntil = setTimeout(() => (toast.textContent = ""), 4000);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS a browser offers the clipboard to addresses of this machine only.
    const field = element("textarea", "hidden");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) return notify("The browser refused to copy");
  }
  notify(`Copied ${what}`);
}

function copyLines(button) {
  const code = button.closest(".hit, .sheet, .whole").querySelectorAll(".src");
  copy([...code].map((line) => line.textContent.replace(/\n$/, "")).join("\n"), code.length === 1 ? "1 line" : `${code.length} lines`);
}

function expand(hit) {
  const button = hit.querySelector("[data-expand]");
  if (!button) return;
  const clipped = hit.querySelector(".code, .passage").classList.toggle("clipped");
  button.setAttribute("aria-expanded", String(!clipped));
  button.dataset.more ||= button.textContent;
  button.textContent = clipped ? button.dataset.more : "less";
}

// --- recent searches: known to this browser only ------------------------------------------------------------------

const RECENT = 8;
const recent = document.getElementById("recent");

function recentSearches() {
  try {
    return JSON.parse(localStorage.getItem("searches")) || [];
  } catch {
    return [];
  }
}

function rememberSearch() {
  const query = new URL(location).searchParams;
  const picked = document.querySelector("select[name=project]")?.selectedOptions[0];
  const entry = { q: query.get("q"), project: query.get("project") || "", name: picked?.textContent.trim() || "" };
  const others = recentSearches().filter((one) => one.q !== entry.q || one.project !== entry.project);
  localStorage.setItem("searches", JSON.stringify([entry, ...others].slice(0, RECENT)));
}

function showRecent() {
  const searches = recentSearches();
  recent.hidden = !searches.length;
  recent.querySelector("ul").replaceChildren(
    ...searches.map((one) => {
      const link = element("a", "", one.q);
      const query = new URLSearchParams({ q: one.q });
      if (one.project) query.set("project", one.project);
      link.href = `/?${query}`;
      const item = element("li", "");
      item.append(link, " ", element("span", "soft", one.name));
      return item;
    }),
  );
}

if (recent) {
  showRecent();
  document.getElementById("forget").addEventListener("click", () => {
    localStorage.removeItem("searches");
    showRecent();
  });
}

// --- a whole file -------------------------------------------------------------------------------------------------

const lines = document.getElementById("lines");
const NAME = /^@?[\p{L}_$][\p{L}\p{N}_$.]*$/u;

function showLine(hash) {
  for (const line of document.querySelectorAll("tr.here")) line.classList.remove("here");
  const line = hash.startsWith("#L") && document.getElementById(hash.slice(1));
  if (!line) return;
  line.classList.add("here");
  line.scrollIntoView({ block: "center", behavior: "instant" });
}

function showName(name) {
  const beside = `/ui/name?${new URLSearchParams({ project: lines.dataset.project, name })}`;
  openPanel(beside);
  loadPanel(beside);
}

if (lines) {
  addEventListener("hashchange", () => showLine(location.hash));
  lines.addEventListener("click", (event) => {
    const token = event.target.closest(".src span");
    const name = token?.textContent.trim() || "";
    if (!token || !/^(n|fm|bp)/.test(token.className) || !NAME.test(name) || String(getSelection())) return;
    showName(name.replace(/^@/, "").split(".").pop());
  });
}

document.addEventListener("click", (event) => {
  const at = (selector) => event.target.closest(selector);
  if (at("[data-close]")) closePanel();
  if (at("[data-close-keys]")) keys.close();
  if (at("#help")) keys.showModal();
  if (at("[data-copy]")) copy(at("[data-copy]").dataset.copy, at("[data-copy]").dataset.copy);
  if (at("[data-copy-lines]")) copyLines(at("[data-copy-lines]"));
  if (at("[data-expand]")) expand(at(".hit"));
  if (at("[data-name]")) {
    opener = at("[data-name]");
    showName(opener.dataset.name);
    showLine(opener.getAttribute("href"));
    event.preventDefault();
  }
  const folder = at("[data-folder]");
  if (folder) document.getElementById("folder").value = folder.dataset.folder;
});

// The error of a refused form is shown beside it; the list it would have changed stays as it was.
document.addEventListener("htmx:beforeSwap", (event) => {
  const trouble = document.getElementById("trouble");
  if (!trouble || event.detail.requestConfig.verb === "get") return;
  trouble.replaceChildren();
  if (event.detail.xhr.status >= 400) event.detail.target = trouble;
});

document.addEventListener("htmx:afterRequest", (event) => {
  const done = event.detail.xhr.status < 400 && event.detail.successful;
  if (done && event.detail.elt.matches("[data-clear]")) event.detail.elt.reset();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.submit();
});

function isTyping(element) {
  return element.matches("input, textarea, select");
}

const HIT_KEYS = {
  Enter: (hit) => hit.querySelector(".place").click(),
  f: (hit) => hit.querySelector("[data-file]")?.click(),
  e: (hit) => hit.querySelector("[data-editor]")?.click(),
  a: (hit) => hit.querySelector("[data-ask]").click(),
  c: (hit) => hit.querySelector("[data-copy]").click(),
  y: (hit) => hit.querySelector("[data-copy-lines]").click(),
  x: expand,
};

document.addEventListener("keydown", (event) => {
  if (keys.open) return; // Escape closes it by itself
  if (event.key === "Escape") {
    if (isTyping(event.target)) {
      event.preventDefault(); // a browser would empty a search field
      event.target.blur();
    }
    if (panel.childElementCount) closePanel();
  }
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") keys.showModal();
  const size = { "+": "in", "-": "out", "−": "out", 0: "fit" }[event.key];
  if (size) zoom(size);
  if (event.key === "/") {
    const field = document.querySelector('input[type="search"], textarea');
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  }
  const hits = [...document.querySelectorAll(".hit")];
  const hit = document.activeElement.closest(".hit");
  if (event.key === "j" || event.key === "k") {
    const next = hits[event.key === "j" ? hits.indexOf(hit) + 1 : Math.max(0, hits.indexOf(hit) - 1)];
    if (next) next.focus();
  }
  // A link or button inside a result has its own Enter.
  if (hit && HIT_KEYS[event.key] && (event.key !== "Enter" || document.activeElement === hit)) HIT_KEYS[event.key](hit);
});

// --- map: the lines of the area that is pointed at, and its size ---------------------------------------------------

function showLinesOf(area, picture) {
  picture.classList.toggle("narrowed", area !== undefined);
  for (const edge of picture.querySelectorAll(".edge")) {
    edge.classList.toggle("own", edge.dataset.start === area || edge.dataset.end === area);
  }
}

for (const kind of ["mouseover", "focusin", "mouseout", "focusout"]) {
  document.addEventListener(kind, (event) => {
    const picture = event.target.closest?.(".picture svg");
    const over = kind === "mouseover" || kind === "focusin";
    if (picture) showLinesOf(over ? event.target.closest("[data-area]")?.dataset.area : undefined, picture);
  });
}

const STEP = 1.35;

// At first the whole picture is fitted in by the style sheet; what is in its middle stays there while it grows.
function zoom(how) {
  for (const frame of document.querySelectorAll(".picture")) {
    const picture = frame.querySelector("svg");
    const before = picture.getBoundingClientRect().width;
    if (!before) continue; // the one for the other kind of screen
    const middle = [frame.scrollLeft + frame.clientWidth / 2, frame.scrollTop + frame.clientHeight / 2];
    const width = before * (how === "in" ? STEP : 1 / STEP);
    const fits = how === "fit" || (how === "out" && width <= frame.clientWidth && frame.scrollHeight <= frame.clientHeight);
    frame.classList.toggle("zoomed", !fits);
    picture.style.width = fits ? "" : `${width}px`;
    const grown = picture.getBoundingClientRect().width / before;
    frame.scrollLeft = middle[0] * grown - frame.clientWidth / 2;
    frame.scrollTop = middle[1] * grown - frame.clientHeight / 2;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom]");
  if (button) zoom(button.dataset.zoom);
});

// --- projects: the queue as it moves ------------------------------------------------------------------------------

const queue = document.querySelector("[data-events]");
if (queue) {
  let finished = null;
  const source = new EventSource(queue.dataset.events);
  source.addEventListener("queue", (event) => {
    const runs = JSON.parse(event.data);
    htmx.ajax("GET", "/ui/projects/queue", { target: "#queue", swap: "innerHTML" });
    const ended = runs.finished.length ? runs.finished[0].id : "";
    if (finished !== null && ended !== finished) htmx.trigger("#projects", "projects-changed");
    finished = ended;
  });
}

// --- chat and agents ----------------------------------------------------------------------------------------------

const composer = document.getElementById("composer");
const thread = document.getElementById("thread");
const stop = document.getElementById("stop");

function element(tag, classes, text) {
  const made = document.createElement(tag);
  made.className = classes;
  if (text) made.textContent = text;
  return made;
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-CodeInfo-Token": token };
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const value = await reply.json();
  if (!reply.ok) throw new Error(`${value.error.message}. ${value.error.next}`);
  return value;
}

const STAGES = { search: "Searching:", grade: "Reading", write: "Writing from" };

// The end of the answer, but never past its question: a long answer is read from its beginning.
function showAnswer() {
  thread.lastElementChild.scrollIntoView({ block: "end", behavior: "instant" });
  const asked = [...thread.querySelectorAll(".turn.user")].pop();
  const above = document.querySelector(".top").getBoundingClientRect().bottom;
  if (asked && asked.getBoundingClientRect().top < above) asked.scrollIntoView({ block: "start", behavior: "instant" });
}

function writing(busy) {
  stop.hidden = !busy;
  composer.querySelector("[type=submit]").hidden = busy;
}

function liveTurn() {
  const turn = element("article", "turn assistant live");
  turn.append(element("p", "steps soft", "Working…"), element("div", "prose stream"));
  thread.append(turn);
  return turn;
}

// Text while it comes is only ever text; the finished turn is rendered and cleaned by the server.
function follow(turn, run) {
  const steps = turn.querySelector(".steps");
  const stream = turn.querySelector(".stream");
  const source = new EventSource(`/chat/runs/${run}/events`);
  writing(true);
  stop.onclick = () => post(`/chat/runs/${run}/stop`, {});
  source.addEventListener("run", () => stream.replaceChildren());
  source.addEventListener("step", (event) => {
    const step = JSON.parse(event.data);
    steps.textContent = `${STAGES[step.stage] || step.stage + ":"} ${step.detail}`;
  });
  source.addEventListener("token", (event) => {
    const following = turn.getBoundingClientRect().bottom < innerHeight;
    stream.append(JSON.parse(event.data).text);
    if (following) showAnswer();
  });
  source.addEventListener("done", async () => {
    source.close();
    writing(false);
    const following = turn.getBoundingClientRect().bottom < innerHeight;
    await htmx.ajax("GET", `/ui/runs/${run}/turn`, { target: turn, swap: "outerHTML" });
    if (following) showAnswer();
    refreshConversations();
  });
}

function refreshConversations() {
  const query = new URLSearchParams({ agent: composer.dataset.agent, c: composer.dataset.conversation });
  htmx.ajax("GET", `/ui/conversations?${query}`, { target: "#conversations", swap: "innerHTML" });
}

function question(form) {
  const [provider, model] = (form.get("model") || "|").split("|");
  const agent = composer.dataset.agent;
  const body = { conversationId: composer.dataset.conversation, provider, model };
  return agent
    ? { ...body, agent, instruction: form.get("message"), working_folder: form.get("project"), command: form.get("command") || "" }
    : { ...body, message: form.get("message"), projects: form.get("project") ? [form.get("project")] : [] };
}

async function ask() {
  const form = new FormData(composer);
  const text = form.get("message").trim();
  if ((!text && !form.get("command")) || !stop.hidden) return; // what is written next waits in the field
  document.querySelector(".welcome")?.remove();
  const mine = element("article", "turn user");
  mine.append(element("p", "", text || form.get("command")));
  thread.append(mine);
  composer.elements.message.value = "";
  const turn = liveTurn();
  showAnswer();
  try {
    const started = await post("/ui/runs", question(form));
    composer.dataset.conversation = started.conversationId;
    const address = new URL(location);
    address.searchParams.set("c", started.conversationId);
    history.replaceState(null, "", address);
    shownPage = pageAddress();
    document.title = `${text || form.get("command")} · CodeInfo`;
    follow(turn, started.runId);
  } catch (error) {
    turn.replaceChildren(element("p", "notice bad", error.message));
    showAnswer();
  }
}

if (composer) {
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  composer.elements.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      ask();
    }
  });
  const live = thread.querySelector(".live[data-run]");
  if (live) follow(live, live.dataset.run);
  if (thread.querySelectorAll(".turn.user").length > 1) showAnswer(); // a conversation continues where it ended
}
