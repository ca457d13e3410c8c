"use strict";

const token = document.querySelector('meta[name="codeinfo-token"]').content;

// --- every page ---------------------------------------------------------------------------------------------------

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CodeInfo-Token"] = token;
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

function closePanel() {
  panel.replaceChildren();
  if (opener) opener.focus();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) closePanel();
  const folder = event.target.closest("[data-folder]");
  if (folder) document.getElementById("folder").value = folder.dataset.folder;
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target === panel && !panel.contains(event.detail.elt)) opener = event.detail.elt;
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === panel) panel.querySelector("[data-close]")?.focus();
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && event.detail.elt.matches("[data-clear]")) event.detail.elt.reset();
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

function liveTurn() {
  const turn = element("article", "turn assistant live");
  turn.append(element("p", "steps soft", "…"), element("div", "prose stream"));
  thread.append(turn);
  return turn;
}

// Text while it comes is only ever text; the finished turn is rendered and cleaned by the server.
function follow(turn, run) {
  const steps = turn.querySelector(".steps");
  const stream = turn.querySelector(".stream");
  const source = new EventSource(`/chat/runs/${run}/events`);
  stop.hidden = false;
  stop.onclick = () => post(`/chat/runs/${run}/stop`, {});
  source.addEventListener("run", () => stream.replaceChildren());
  source.addEventListener("step", (event) => {
    const told = JSON.parse(event.data);
    steps.textContent = `${told.stage}: ${told.detail}`;
  });
  source.addEventListener("token", (event) => {
    stream.append(JSON.parse(event.data).text);
    turn.scrollIntoView({ block: "end" });
  });
  source.addEventListener("done", async () => {
    source.close();
    stop.hidden = true;
    await htmx.ajax("GET", `/ui/runs/${run}/turn`, { target: turn, swap: "outerHTML" });
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
  if (!text && !form.get("command")) return;
  document.querySelector(".welcome")?.remove();
  const mine = element("article", "turn user");
  mine.append(element("p", "", text || form.get("command")));
  thread.append(mine);
  composer.elements.message.value = "";
  const turn = liveTurn();
  try {
    const started = await post("/ui/runs", question(form));
    composer.dataset.conversation = started.conversationId;
    const address = new URL(location);
    address.searchParams.set("c", started.conversationId);
    history.replaceState(null, "", address);
    follow(turn, started.runId);
  } catch (error) {
    turn.replaceChildren(element("p", "notice bad", error.message));
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
}
