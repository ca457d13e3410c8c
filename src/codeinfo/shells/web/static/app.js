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
let opener = null;

// Each thing that was opened is a step of the history, so that Back leads to the one before and at last closes the panel.
// The state of a step says what it shows and how many steps lie between it and the page.
function closePanel() {
  const steps = history.state?.steps;
  if (steps) history.go(-steps); // the popstate that follows empties the panel
  else emptyPanel();
}

function emptyPanel() {
  panel.replaceChildren();
  if (opener?.isConnected) opener.focus();
}

window.addEventListener("popstate", (event) => {
  const address = event.state?.panel;
  if (address) htmx.ajax("GET", address, { target: panel, swap: "innerHTML" });
  else if (panel.childElementCount) {
    emptyPanel();
    event.stopImmediatePropagation(); // the page itself has not changed: htmx need not fetch it again
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) closePanel();
  const folder = event.target.closest("[data-folder]");
  if (folder) document.getElementById("folder").value = folder.dataset.folder;
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target !== panel || !event.detail.elt.matches("[hx-get]")) return;
  if (!panel.contains(event.detail.elt)) opener = event.detail.elt;
  const steps = (panel.childElementCount && history.state?.steps) || 0;
  history.pushState({ panel: event.detail.elt.getAttribute("hx-get"), steps: steps + 1 }, "");
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === panel) {
    panel.scrollTop = 0;
    panel.querySelector("[data-close]")?.focus();
  }
  if (event.detail.target?.id === "results") {
    panel.replaceChildren();
    document.getElementById("slogan").classList.add("hidden");
  }
});

document.addEventListener("htmx:historyRestore", () => panel.replaceChildren());

// What a refused form says stays beside it: the list it would have changed goes on as it was.
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

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && panel.childElementCount) closePanel();
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = document.querySelector('input[type="search"], textarea');
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  }
  if (event.key === "j" || event.key === "k") {
    const hits = [...document.querySelectorAll(".hit")];
    const at = hits.indexOf(document.activeElement.closest(".hit"));
    const next = hits[event.key === "j" ? at + 1 : Math.max(0, at - 1)];
    if (next) next.focus();
  }
});

// --- map: the lines of the area that is pointed at ----------------------------------------------------------------

const picture = document.querySelector(".picture svg");

function showLinesOf(area) {
  picture.classList.toggle("narrowed", area !== undefined);
  for (const edge of picture.querySelectorAll(".edge")) {
    edge.classList.toggle("own", edge.dataset.start === area || edge.dataset.end === area);
  }
}

if (picture) {
  for (const kind of ["mouseover", "focusin"]) {
    picture.addEventListener(kind, (event) => showLinesOf(event.target.closest("[data-area]")?.dataset.area));
  }
  for (const kind of ["mouseleave", "focusout"]) picture.addEventListener(kind, () => showLinesOf(undefined));
}

// --- projects: the queue as it moves ------------------------------------------------------------------------------

const queue = document.querySelector("[data-events]");
if (queue) {
  let finished = null;
  const source = new EventSource(queue.dataset.events);
  source.addEventListener("queue", (event) => {
    const told = JSON.parse(event.data);
    htmx.ajax("GET", "/ui/projects/queue", { target: "#queue", swap: "innerHTML" });
    const ended = told.finished.length ? told.finished[0].id : "";
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
    const told = JSON.parse(event.data);
    steps.textContent = `${STAGES[told.stage] || told.stage + ":"} ${told.detail}`;
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
  if (thread.querySelectorAll(".turn.user").length > 1) showAnswer(); // a talk goes on where it ended
}
