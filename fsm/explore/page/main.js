// The page as a whole: what is drawn when the reader has moved, playing, keys.

const FIRST = 500; // so many steps are there before the first is shown
const play = { timer: 0 };

function complain(problem) {
  byId("problem").textContent = problem ? show(problem.message) : "";
}

/** Draws everything for where the reader stands. */
function render() {
  const { at, way, opening, chosen } = walk;
  const now = way.position(at);
  const before = at ? way.position(at - 1) : null;
  const step = way.steps[at - 1];
  complain(null);
  showPlace();
  showStep(step, now);
  const view = chosen.view === "machine" || chosen.view === "sequence" ? chosen.view : "stage";
  for (const each of ["stage", "machine", "sequence"]) byId(each).hidden = each !== view;
  for (const each of byId("views").children) each.setAttribute("aria-pressed", String(each.dataset.view === view));
  if (view === "stage") renderStage(before, now, step);
  else if (view === "machine") renderBoard(before, now);
  else renderSequence();
  renderList();
  renderOptions();
  document.title = at ? `${number(at)} · ${show(opening.title)}` : show(opening.title);
}

/** Says where the reader stands, and which ways are open. */
function showPlace() {
  const end = stepCount();
  byId("place").textContent = `${number(walk.at)} / ${number(end)}`;
  for (const [id, on] of [
    ["first", walk.at > 0],
    ["back", walk.at > 0],
    ["forward", walk.at < end],
    ["last", walk.at < end],
  ])
    byId(id).disabled = !on;
  byId("play").disabled = walk.at >= end && !play.timer;
}

/** Tells the step that led here, and what is broken here. */
function showStep(step, now) {
  put(
    byId("now"),
    make("b", { class: "no" }, walk.at ? `step ${number(walk.at)}` : "start"),
    " ",
    make("span", { class: "say" }, step ? sayOf(step) : "nothing has happened yet"),
    " ",
    step && kindOf(step),
    " ",
    step?.at_ms != null && make("span", { class: "time" }, time(step.at_ms)),
    now.disturbances > 0 && make("small", {}, ` ${many(now.disturbances, "disturbance")} so far`),
  );
  byId("now").classList.toggle("disturbs", Boolean(step?.disturbance));
  const broken = now.broken || [];
  byId("broken").hidden = !broken.length;
  put(
    byId("broken"),
    broken.map((name) =>
      make("p", {}, `does not hold here: ${name}`, make("small", {}, own(walk.opening.properties, name))),
    ),
  );
  byId("said").textContent = play.timer ? "" : told(step);
}

/** What a reader who does not see the page is told of a step. */
function told(step) {
  if (!step) return "start";
  const changes = Object.entries(step.delta.components || {}).map(([name, { said }]) => `${name}: ${said}`);
  const broken = (step.delta.broken || []).map((each) => `does not hold: ${each}`);
  return show([`step ${number(walk.at)} of ${number(stepCount())}: ${step.text}`, ...changes, ...broken].join("; "));
}

// -- playing -------------------------------------------------------------------------------------------------

function setPlaying(on) {
  clearTimeout(play.timer);
  play.timer = 0;
  const go = () => {
    if (walk.at >= stepCount()) return setPlaying(false);
    play.timer = setTimeout(go, 1000 / Number(byId("speed").value));
    stand(walk.at + 1, "replace");
  };
  if (on) {
    if (walk.at >= stepCount()) return;
    play.timer = setTimeout(go, 0);
  }
  put(byId("play"), on ? "❚❚" : "▶", make("span", {}, on ? " pause" : " play"));
  byId("play").setAttribute("aria-pressed", String(on));
  if (on) return;
  showPlace();
  showStep(walk.way.steps[walk.at - 1], walk.way.position(walk.at));
}

// -- buttons and keys ----------------------------------------------------------------------------------------

const moves = {
  first: () => 0,
  back: () => walk.at - 1,
  forward: () => walk.at + 1,
  last: () => stepCount(),
};

function move(how, repeated = false) {
  setPlaying(false);
  const to = Math.max(0, Math.min(stepCount(), moves[how]()));
  if (to !== walk.at) stand(to, repeated ? "replace" : "push");
}

const KEYS = {
  j: "forward",
  k: "back",
  ArrowRight: "forward",
  ArrowLeft: "back",
  Home: "first",
  End: "last",
};
const ACTS = {
  " ": () => setPlaying(!play.timer),
  "/": () => byId("search").focus(),
  "?": () => byId("help").showModal(),
  n: () => goToMatch(true),
  N: () => goToMatch(false),
  v: () => choose({ view: "stage" }),
  d: () => choose({ view: "machine" }),
  s: () => choose({ view: "sequence" }),
  c: () => {
    byId("trouble").open = true;
    (form.querySelector("input[type=checkbox]") || byId("look")).focus();
  },
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || byId("help").open) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  if (event.key === " " && event.target.closest("button, summary, input")) return;
  const option = /^[1-9]$/.test(event.key) && offered[event.key - 1];
  if (event.key in KEYS) move(KEYS[event.key], event.repeat);
  else if (event.key in ACTS) ACTS[event.key]();
  else if (option) take(option, event.repeat ? "replace" : "push").catch(complain);
  else return;
  event.preventDefault();
});

for (const how of Object.keys(moves)) byId(how).addEventListener("click", () => move(how));
byId("play").addEventListener("click", () => setPlaying(!play.timer));
byId("to-next").addEventListener("click", () => byId("next").scrollIntoView());
byId("help-open").addEventListener("click", () => byId("help").showModal());
for (const each of byId("views").children) each.addEventListener("click", () => choose({ view: each.dataset.view }));
addEventListener("popstate", () => {
  setPlaying(false);
  follow().catch(complain);
});
addEventListener("resize", paintList);

// -- from the start ------------------------------------------------------------------------------------------

async function begin() {
  const opening = (walk.opening = await source.opening());
  walk.way = new Way(opening.start);
  byId("title").textContent = show(opening.title);
  byId("source").textContent = opening.source === opening.title ? "" : show(opening.source);
  byId("missing").textContent = opening.missing?.length ? show(`missing: ${opening.missing.join("; ")}`) : "";
  byId("next").hidden = !opening.can_branch;
  document.body.classList.toggle("recorded", !opening.can_branch);
  if (isModel() && opening.can_branch && opening.length) walk.loaded = await source.loaded();
  walk.path = [...walk.loaded];
  buildStage();
  renderTables();
  buildKinds();
  buildCheck();
  await readSteps(opening.length);
}

/** Reads what was loaded, and shows it as soon as there is what the address names; the rest comes meanwhile. */
async function readSteps(length) {
  const wanted = isModel() ? length : Math.min(length, Math.max(FIRST, readAddress().at || 0));
  let isShown = false;
  for await (const steps of source.steps(length)) {
    walk.way.add(steps);
    byId("reading").textContent = stepCount() < length ? `reading ${number(stepCount())} of ${number(length)}` : "";
    if (isShown) {
      showPlace();
      findMatches();
      paintList();
    } else if (stepCount() >= wanted) {
      isShown = true;
      await start();
    }
  }
  if (!isShown) await start();
}

async function start() {
  try {
    await follow();
  } catch (problem) {
    stand(0, "replace");
    complain(problem);
  }
  document.body.classList.add("running");
}

begin().catch(complain);
