// The list of steps: only the rows in view are elements, so that ten thousand steps are as quick as ten.

const ROW = 28;
const BEYOND = 6;
const SHORT = 14; // characters of a name that a row has room for
const list = byId("steps");
const rows = list.querySelector(".rows");
let matches = null; // numbers of the steps that fit the search; null where nothing is searched

const stepText = (step) => `${step.text} ${step.message || ""} ${step.disturbance || ""}`.toLowerCase();

/** A step as it is told, beside a mark that says which kind of disturbance it is. */
const sayOf = ({ text, disturbance }) => (disturbance ? text.replace(` (${disturbance})`, "") : text);

/** That mark; where no kind is known, the colour of the step is enough. */
const kindOf = ({ disturbance }) =>
  disturbance && disturbance !== "disturbance" && make("span", { class: "kind" }, disturbance);

/** A name where there is little room: of a long one its end, which tells more than its beginning. */
function brief(name) {
  const end = name.slice(name.lastIndexOf(": ") + 1).trim();
  return name.length <= SHORT ? name : end.length <= SHORT ? end : `…${name.slice(-SHORT + 4)}`;
}

/** A step as a row has room for it. */
function briefly(step) {
  const long = walk.opening.components.map(({ name }) => name).filter((name) => name.length > SHORT);
  return long.reduce(
    (text, name) => text.replaceAll(`${name} `, `${brief(name)} `).replaceAll(`${name}: `, `${brief(name)}: `),
    sayOf(step),
  );
}

/** The number of the step that stands in a row: the start is step 0. */
const inRow = (row) => (matches ? matches[row] : row);
const rowOf = (at) => (matches ? matches.indexOf(at) : at);
const rowCount = () => (matches ? matches.length : stepCount() + 1);

function rowElement(row) {
  const at = inRow(row);
  const step = walk.way.steps[at - 1];
  const broken = step ? (step.delta.broken || []).length > 0 : false;
  const words = ["row", step?.disturbance && "disturbs", broken && "breaks", at > walk.at && "ahead"].filter(Boolean);
  return make(
    "li",
    {
      class: words.join(" "),
      id: `step-${at}`,
      role: "option",
      "aria-selected": String(at === walk.at),
      "aria-posinset": row + 1,
      "aria-setsize": rowCount(),
      "data-at": at,
      title: step ? step.text : "the start",
      style: null,
    },
    make("span", { class: "no" }, number(at)),
    make("span", { class: "say" }, step ? briefly(step) : "start"),
    step && kindOf(step),
    broken && make("span", { class: "mark", title: `broken: ${step.delta.broken.join(", ")}` }, "✗"),
    step?.at_ms != null && make("span", { class: "time" }, time(step.at_ms)),
  );
}

function paintList() {
  list.querySelector(".tall").style.height = `${rowCount() * ROW}px`;
  const top = Math.min(list.scrollTop, Math.max(0, rowCount() * ROW - list.clientHeight)); // a search leaves few rows
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const last = Math.min(rowCount(), Math.ceil((top + list.clientHeight) / ROW) + BEYOND);
  const shown = [];
  for (let row = first; row < last; row += 1) shown.push(rowElement(row));
  rows.replaceChildren(...shown);
  rows.style.transform = `translateY(${first * ROW}px)`;
  if (top < list.scrollTop) list.scrollTop = top;
}

/** Draws the list, with the step of now in view. */
function renderList() {
  list.querySelector(".tall").style.height = `${rowCount() * ROW}px`; // a row has to be there to be scrolled to
  const row = rowOf(walk.at);
  if (row >= 0) {
    const top = row * ROW;
    if (top < list.scrollTop + ROW) list.scrollTop = Math.max(0, top - 2 * ROW);
    else if (top > list.scrollTop + list.clientHeight - 2 * ROW) list.scrollTop = top - list.clientHeight + 4 * ROW;
  }
  paintList();
  if (rows.querySelector(`#step-${walk.at}`)) list.setAttribute("aria-activedescendant", `step-${walk.at}`);
  else list.removeAttribute("aria-activedescendant");
}

/** Keeps the steps that have all words of the search. */
function findMatches() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = null;
  if (words.length) {
    matches = [];
    walk.way.steps.forEach((step, i) => {
      const text = stepText(step);
      if (words.every((word) => text.includes(word))) matches.push(i + 1);
    });
  }
  byId("found").textContent = matches ? many(matches.length, "match", "matches") : "";
}

function search() {
  findMatches();
  renderList();
}

/** Goes to the next step that fits, or to the one before. */
function goToMatch(forward) {
  if (!matches?.length) return;
  const next = forward ? matches.find((at) => at > walk.at) : matches.findLast((at) => at < walk.at);
  stand(next ?? matches.at(forward ? 0 : -1));
}

list.addEventListener("scroll", () => requestAnimationFrame(paintList));
// When the button goes down: a row that is drawn anew before it comes up gets no click.
list.addEventListener("mousedown", (event) => {
  const row = event.target.closest(".row");
  if (!row || event.button) return;
  event.preventDefault();
  list.focus({ preventScroll: true });
  stand(Number(row.dataset.at));
});
list.addEventListener("keydown", (event) => {
  const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const row = rowOf(walk.at);
  stand(inRow(Math.max(0, Math.min(rowCount() - 1, row + by))), event.repeat ? "replace" : "push");
});
byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") goToMatch(!event.shiftKey);
  else if (event.key === "Escape") {
    event.preventDefault();
    event.target.value = "";
    search();
    list.focus();
  }
});
