// The page: filters, counters, lists, and its address, which holds all that a reader has chosen.

let summary = JSON.parse(document.getElementById("summary-data").textContent);
const entries = new Map();
const rows = new Map();
const names = new Map();
const FILTERS = ["q", "severity", "kind", "group", "member", "topic", "from", "until"];
const SHOWN = 50;
let state = readAddress();
let whole = false; // whether everything of the index is here
let most = { rows: SHOWN, groups: SHOWN };
const elements = new Map(); // id of a row, or key of a group -> its element and what it was made of

const byId = (id) => document.getElementById(id);
const form = byId("filter");

// -- the address ---------------------------------------------------------------------------------------------

function readAddress() {
  const text = location.hash.slice(1);
  return text.includes("=") ? Object.fromEntries(new URLSearchParams(text)) : {};
}

/** An address, to be copied and sent; followed on the page it leaves filters as they are. */
function link(parts) {
  return `#${new URLSearchParams(Object.entries(parts).filter(([, value]) => value))}`;
}

/** The address of what is shown, with some of it changed. */
const address = (changes) => link({ ...state, ...changes });

/** Changes what is shown without a new entry in the history. */
function replace(changes) {
  const next = address(changes);
  state = { ...state, ...changes };
  history.replaceState(null, "", next === "#" ? location.pathname + location.search : next);
}

function readSpan(text) {
  const found = /^(-?\d+)-(-?\d+)$/.exec(text || "");
  return found ? { from: Number(found[1]), until: Number(found[2]) } : {};
}

// -- the index -----------------------------------------------------------------------------------------------

function takeIndex({ entries: some, rows: told, names: known }) {
  some.forEach((entry) => entries.set(entry.key, entry));
  told.forEach((row) => rows.set(`${row.key}.${row.id}`, row));
  Object.entries(known).forEach(([key, each]) => names.set(key, each));
}

/** Loads what the page does not hold of the index, once. */
let loadingAll = null;
function loadAll() {
  return (loadingAll ??= (async () => {
    for (let i = 1; i <= summary.shards; i += 1)
      for (const { entry, rows: told, names: known } of await load(
        `index-${i}`,
        summary.refresh ? summary.stamp : "",
      )) {
        entries.set(entry.key, entry);
        names.set(entry.key, known);
        told.forEach((row) =>
          rows.set(`${entry.key}.${row.id}`, { key: entry.key, group: entry.group || "", ...row }),
        );
      }
    whole = true;
  })());
}

// -- what is shown -------------------------------------------------------------------------------------------

/** Does something to the page so that what the reader looks at stays where it is. */
function keepPlace(act) {
  const focus = document.activeElement;
  const anchor = [...document.querySelectorAll(".finding, .group")].find(
    (each) => each.getBoundingClientRect().bottom > 60,
  );
  const before = anchor?.getBoundingClientRect().top;
  act();
  if (anchor?.isConnected && scrollY > 0) scrollBy(0, anchor.getBoundingClientRect().top - before);
  if (focus?.isConnected && focus !== document.activeElement) focus.focus({ preventScroll: true });
}

/** The element of a row or group: the one there is while nothing of it has changed, so that what is open stays open. */
function elementOf(id, value, build) {
  const text = JSON.stringify(value);
  const known = elements.get(id);
  if (known?.text === text) return known.element;
  const element = build(value);
  if (known?.element.open) element.open = true;
  elements.set(id, { text, element });
  return element;
}

function groupOf(entry) {
  const { stamp, ...rest } = entry;
  const element = elementOf(entry.key, rest, groupElement);
  if (element.open) fillGroup(element, entry.key);
  return element;
}

/** Whether the page lists fewer incidents or groups than there are in the index; names are beside it in any case. */
function lacks() {
  const groups = [...entries.values()].filter((entry) => entry.group).length;
  return !whole && (rows.size < summary.incidents || groups < summary.groups);
}

function show(box, items, count, what, more) {
  const left = items.length - count;
  box.replaceChildren(...items.slice(0, count).map(what));
  const button = (act, text) => box.append(make("button", { type: "button", class: "further", onclick: act }, text));
  if (left > 0) button(more, `show ${number(Math.min(left, 4 * SHOWN))} more of ${number(items.length)}`);
  else if (lacks()) button(() => search().then(render), "load those that the page does not hold");
}

function render() {
  const fitting = [...rows.values()].filter(rowFits).sort(worst);
  matching = new Set(fitting.map((row) => row.key));
  const groups = sorted([...entries.values()].filter((entry) => entry.group && groupFits(entry)));
  const longer = (which) => () => {
    most[which] += 4 * SHOWN;
    render();
  };
  keepPlace(() => {
    show(
      byId("rows"),
      fitting,
      most.rows,
      (row) => elementOf(`${row.key}.${row.id}`, row, (each) => rowElement(each, "page")),
      longer("rows"),
    );
    show(byId("group-list"), groups, most.groups, groupOf, longer("groups"));
  });
  const hidden = [...entries.values()].reduce((sum, entry) => sum + (entry.rows_hidden || 0), 0);
  const beyond = hidden ? `; ${number(hidden)} more stand in their groups` : "";
  const partly = lacks() ? "; any filter looks through all of them" : beyond;
  const of = whole ? rows.size + hidden : summary.incidents;
  byId("shown").textContent =
    `${number(fitting.length)} of ${many(of, "incident")} in ` +
    `${number(groups.length)} of ${many(summary.groups, "group")}${partly}`;
  byId("none").hidden = fitting.length > 0;
  byId("none").textContent = rows.size ? "Nothing fits this choice." : "No findings.";
  for (const card of document.querySelectorAll(".card"))
    card.setAttribute(
      "aria-pressed",
      String((state.severity || "") === card.dataset.severity && (state.kind || "") === (card.dataset.kind || "")),
    );
  if (FILTERS.some((each) => state[each])) byId("filters").open = true;
  byId("reset").hidden = !FILTERS.some((each) => state[each]);
  for (const head of document.querySelectorAll("[data-sort]"))
    head.setAttribute("aria-pressed", String((state.sort || "") === head.dataset.sort));
}

/** What stands at the top of the page. */
function renderHead() {
  const [cls, headline] = summary.verdict;
  byId("summary").className = `verdict ${cls}`;
  byId("headline").textContent = headline;
  byId("read").textContent = summary.read;
  const first = (kind) =>
    Math.min(...summary.totals.filter((each) => each[0] === kind).map((each) => SEVERITIES.indexOf(each[1])));
  const card = (severity, kind, count) =>
    make(
      "button",
      {
        type: "button",
        class: `card ${severity}`,
        "data-severity": severity,
        "data-kind": kind || null,
        title: summary.kinds[kind] || "",
        onclick: () =>
          choose(
            state.severity === severity && (state.kind || "") === (kind || "")
              ? { severity: "", kind: "" }
              : { severity, kind: kind || "" },
          ),
      },
      make("b", {}, number(count)),
      ` ${kind ? words(kind) : severity === "info" ? "information" : `${severity}s`}`,
      kind && SEVERITIES.indexOf(severity) !== first(kind) ? make("small", {}, ` ${severity}`) : null,
    );
  const several = SEVERITIES.filter((severity) => summary.severities[severity]);
  byId("cards").replaceChildren(
    summary.totals.length ? make("small", {}, "incidents") : "",
    ...several.map((severity) => card(severity, "", summary.severities[severity])),
    ...summary.totals.map(([kind, severity, count]) => card(severity, kind, count)),
  );
  const charts = drawTrend(summary.trend, (from, until) =>
    choose({ from: utc(from).slice(0, 19).replace(" ", "T"), until: utc(until).slice(0, 19).replace(" ", "T") }),
  );
  byId("trends").replaceChildren(...charts);
  byId("trend").hidden = !charts.length;
}

async function choose(changes) {
  replace({ ...changes });
  fillForm();
  most = { rows: SHOWN, groups: SHOWN };
  if (FILTERS.some((each) => state[each]) && !whole) await search();
  render();
}

/** Loads what the page does not hold, and says so where it cannot. */
async function search() {
  byId("shown").textContent = "looking through all groups …";
  try {
    await loadAll();
  } catch (problem) {
    byId("problem").textContent = problem.message;
    loadingAll = null;
  }
}

function fillForm() {
  const kinds = [...new Set(summary.totals.map((each) => each[0]))].sort();
  if (form.elements.kind.options.length !== kinds.length + 1)
    form.elements.kind.replaceChildren(new Option("all", ""), ...kinds.map((kind) => new Option(words(kind), kind)));
  for (const each of FILTERS)
    if (form.elements[each] !== document.activeElement) form.elements[each].value = state[each] || "";
}

/** Opens what the address names, and brings it into view. */
async function follow() {
  const before = state;
  state = readAddress();
  if (FILTERS.some((each) => state[each] !== before[each]) || state.sort !== before.sort) await choose({});
  if (!state.open && !state.row) return;
  if (summary.shards && !whole && !(state.open ? entries.has(state.open) : rows.has(state.row))) {
    await search();
    render();
  }
  const target = await (state.open ? openGroup() : openRow(byId("rows"), state.row));
  target?.scrollIntoView({ block: "start" });
  (target?.querySelector("summary") || target)?.focus({ preventScroll: true });
}

async function openGroup() {
  const entry = entries.get(state.open);
  if (!entry) return null;
  const element = groupOf(entry);
  if (!element.isConnected) byId("group-list").prepend(element);
  element.open = true;
  await fillGroup(element, entry.key);
  await detailsOf(entry.key);
  const { from, until } = readSpan(state.at);
  if (until > from) element.timeline?.move(from, until);
  if (state.row) return openRowOfGroup(element, await detailsOf(entry.key));
  return until > from ? element.timeline?.element : element;
}

function openRow(box, id) {
  const find = () => [...box.querySelectorAll(".finding")].find((each) => each.dataset.row === id);
  let found = find();
  if (!found && box === byId("rows") && rows.has(id))
    box.prepend((found = elementOf(id, rows.get(id), (each) => rowElement(each, "page"))));
  if (found) found.open = true;
  return found;
}

/** Opens the incident that is asked for in the list of its group, however far down it stands. */
async function openRowOfGroup(element, details) {
  const row = await rowOf(state.row.split(".").slice(1).join("."), details);
  if (row && !openRow(element, state.row)) element.querySelector(".listed").prepend(rowElement(row, "group"));
  return openRow(element, state.row) || element;
}

// -- a page that refreshes itself ----------------------------------------------------------------------------

async function refresh() {
  try {
    const next = await load("now", String(Date.now()));
    const changed = JSON.stringify(next) !== refresh.last;
    refresh.last = JSON.stringify(next);
    byId("problem").textContent = "";
    if (!changed) return;
    summary = { ...summary, ...next, stamp: Date.now() };
    entries.clear();
    rows.clear();
    takeIndex(summary);
    loadingAll = null;
    whole = summary.shards === 0;
    if (FILTERS.some((each) => state[each]) && summary.shards) await loadAll();
    [...elements.keys()].filter((id) => !rows.has(id) && !entries.has(id)).forEach((id) => elements.delete(id));
    renderHead();
    render();
  } catch (problem) {
    byId("problem").textContent = problem.message;
  }
}

// -- from the start ------------------------------------------------------------------------------------------

takeIndex(summary);
whole = summary.shards === 0;
form.addEventListener("input", (event) => choose({ [event.target.name]: event.target.value.trim() }));
form.addEventListener("submit", (event) => event.preventDefault());
byId("reset").addEventListener("click", () => choose(Object.fromEntries(FILTERS.map((each) => [each, ""]))));
document
  .querySelectorAll("[data-sort]")
  .forEach((head) =>
    head.addEventListener("click", () => choose({ sort: state.sort === head.dataset.sort ? "" : head.dataset.sort })),
  );
addEventListener("hashchange", follow);
document.addEventListener("click", (event) => {
  const to = event.target.closest('a[href*="="]')?.getAttribute("href");
  if (!to || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const next = address({ open: "", at: "", row: "", ...Object.fromEntries(new URLSearchParams(to.slice(1))) });
  if (location.hash === next) follow();
  else location.hash = next;
});
addEventListener("beforeprint", () =>
  document.querySelectorAll("details[open] .chart").forEach((chart) => chart.timeline.paintAll()),
);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, .chart")) return;
  if (event.key === "/") {
    event.preventDefault();
    form.elements.q.focus();
  } else if (event.key === "j" || event.key === "k") {
    const all = [...document.querySelectorAll("#rows > .finding > summary")];
    const at = all.indexOf(document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
  }
});
byId("filters").open = innerWidth > 900;
fillForm();
renderHead();
document.body.classList.add("running");
render();
performance.mark("first-list");
if (state.open || state.row || FILTERS.some((each) => state[each])) {
  state = {};
  follow();
} else {
  const first = rows.size <= 5 && document.querySelector("#rows > .finding:not(.info)");
  if (first && document.querySelector(`script[data-piece="${first.dataset.row.split(".")[0]}"]`)) first.open = true;
}
if (summary.refresh) setInterval(refresh, 1000 * summary.refresh);
