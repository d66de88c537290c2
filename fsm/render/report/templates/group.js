// Groups: their details are in the page, or loaded from files beside it when a reader opens them.

const held = new Map(); // name of a piece -> {stamp, promise of its data}
const waiting = new Map(); // name of a piece -> who waits for it

/** Files beside the page call this with what they hold. */
const rebalanceReport = {
  take(name, index, data) {
    waiting.get(name)?.(data);
    waiting.delete(name);
  },
};

/** A piece of data from the page or from its file; `stamp` tells a newer one from an older. */
function load(name, stamp = "") {
  const place = document.querySelector(`script[data-piece="${CSS.escape(name)}"]`);
  if (place && !summary.refresh) return Promise.resolve(JSON.parse(place.textContent));
  if (held.get(name)?.stamp === stamp) return held.get(name).promise;
  const promise = new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const script = make("script", { src: `report/${name}.js${stamp && `?${stamp}`}`, onload: () => script.remove(),
      onerror: () => { script.remove(); held.delete(name); reject(new Error(`report/${name}.js cannot be loaded: keep the folder "report" beside this page`)); } });
    document.head.append(script);
  });
  held.set(name, { stamp, promise });
  return promise;
}

const detailed = new Map(); // key of a group -> {stamp, promise of its details}

/** Everything about a group but its further pieces. */
function detailsOf(key) {
  const stamp = entries.get(key)?.stamp || "";
  if (detailed.get(key)?.stamp !== stamp) {
    const promise = load(key, stamp).then((data) => {
      const details = { ...data, key, stamp, loaded: { rows: 0, findings: 0, lanes: 0 }, found: new Map(data.findings.map((each) => [each.id, each])) };
      details.rows.forEach((row) => { row.key = key; });
      return details;
    });
    promise.catch(() => detailed.delete(key));
    detailed.set(key, { stamp, promise });
  }
  return detailed.get(key).promise;
}

/** Whether there are further pieces of the `rows`, `findings` or `lanes` of a group. */
const hasMore = (details, what) => details.loaded[what] < details.pieces[what];

/** Loads the next piece; gives what is in it. */
async function loadMore(details, what) {
  const more = await load(`${details.key}-${what}${(details.loaded[what] += 1)}`, details.stamp);
  if (what === "rows") more.forEach((row) => { row.key = details.key; });
  if (what === "findings") more.forEach((each) => details.found.set(each.id, each));
  else details[what].push(...more);
  return more;
}

const further = (details, what) => ({ has: () => hasMore(details, what), load: () => loadMore(details, what) });

/** An incident by its id, from further pieces where it is not in the first. */
async function rowOf(id, details) {
  const find = () => details.rows.find((row) => row.id === id);
  while (!find() && hasMore(details, "rows")) await loadMore(details, "rows");
  return find();
}

/** The findings of an incident, from further pieces where they are not in the first. */
async function findingsOf(row, details) {
  const ids = row.findings || [];
  while (ids.some((id) => !details.found.has(id)) && hasMore(details, "findings")) await loadMore(details, "findings");
  return ids.map((id) => details.found.get(id)).filter(Boolean);
}

// -- an incident ---------------------------------------------------------------------------------------------

/** A row: what is wrong, of whom, since when, why and what to try; opened, the moment and the lines. */
function rowElement(row, where) {
  const entry = entries.get(row.key) || {};
  const id = `${row.key}.${row.id}`;
  const facts = [
    where === "page" && entry.group && fact("group", make("a", { href: link({ open: row.key }) }, make("bdi", {}, entry.group))),
    row.members && fact("members", make("bdi", {}, row.members.slice(0, 3).join(", ")), row.members.length + (row.members_hidden || 0) > 3 ? ` and ${row.members.length + (row.members_hidden || 0) - 3} more` : ""),
    row.end ? fact("since", `${utc(row.start).slice(0, 19)} UTC`) : null,
    row.end > row.start ? fact("for", lasting(row.end - row.start), row.still ? make("b", { class: "still" }, " and still so") : "") : null,
    row.cause && fact("cause", words(row.cause)),
  ];
  const element = make("details", { class: `finding ${row.severity}`, "data-row": id },
    make("summary", {},
      badge(row.severity, row.severity), make("span", { class: "say" }, row.text),
      make("span", { class: "facts" }, facts),
      row.next ? make("span", { class: "next" }, make("b", {}, "Try: "), row.next) : null,
      make("span", { class: "jump" },
        row.end && entry.group ? make("a", { href: link({ open: row.key, at: around(row) }) }, "timeline") : null,
        make("a", { href: link(where === "page" ? { row: id } : { open: row.key, row: id }) }, "lines"))));
  element.addEventListener("toggle", async () => {
    if (!element.open || element.filled) return;
    element.filled = true;
    const body = make("div", { class: "body" }, make("p", { class: "soft" }, "loading"));
    element.append(body);
    try {
      const details = await detailsOf(row.key);
      const whole = (await rowOf(row.id, details)) || row;
      body.replaceChildren(...(await rowBody(whole, details)));
    } catch (problem) {
      element.filled = false;
      body.replaceChildren(make("p", { class: "bad" }, problem.message));
    }
  });
  return element;
}

const fact = (name, ...values) => make("span", {}, make("small", {}, `${name} `), values);

/** The time of an incident with some of what was before and after it, as an address has it. */
function around(row) {
  const margin = Math.max(2000, Math.round((row.end - row.start) / 2));
  return `${row.start - margin}-${row.end + margin}`;
}

async function rowBody(row, details) {
  const found = await findingsOf(row, details);
  const { kinds, causes } = summary;
  const facts = [
    row.end ? ["When", `${utc(row.start)} to ${utc(row.end)} UTC, ${lasting(Math.max(0, row.end - row.start))}`] : null,
    (row.members || []).length > 3 ? ["Members", make("bdi", {}, row.members.slice(0, 200).join(", "), row.members.length > 200 ? ` and ${number(row.members.length - 200)} more, which have lanes below` : "")] : null,
    causes[row.cause] ? ["Cause", causes[row.cause]] : null,
    row.setting ? ["Look at", make("code", {}, row.setting)] : null,
    row.hazard ? ["Weak spot", `${row.hazard.toUpperCase()} of Kafka: diagrams/hazards.md#${row.hazard}`] : null,
    ...(row.kinds || []).map((kind) => kinds[kind] && [words(kind), make("span", { class: "soft" }, kinds[kind])]),
  ].filter(Boolean);
  const parts = [make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))];
  const shown = concerned(row, found, details);
  if (shown.size && row.end) {
    const margin = Math.max(2000, Math.round((row.end - row.start) / 2));
    parts.push(new Timeline(details, { from: row.start - margin, until: row.end + margin, shows: (lane) => shown.has(lane), link: null }).element);
  }
  parts.push(listed(found, (each) => findingElement(each, found.length === 1 && each.text === row.text), 50));
  const hidden = (row.findings || []).length + (row.findings_hidden || 0) - found.length;
  if (hidden) parts.push(make("p", { class: "soft" }, `and ${many(hidden, "more finding")}: see findings.parquet`));
  return parts;
}

/** A few lanes that an incident is about: its members, and the partitions that were in trouble or moved. */
function concerned(row, found, details) {
  const who = new Set([...(row.members || []), ...found.flatMap((each) => [each.member, ...each.others])]);
  const numbers = new Set(details.names.map((name, i) => (who.has(name) ? i + 1 : 0)));
  const meets = ([start, end]) => start <= row.end && end >= row.start;
  const own = (lane) => lane.owners?.some(([owner, start, end]) => numbers.has(owner) && (meets([start, start]) || meets([end, end])));
  const members = details.lanes.filter((lane) => lane.what !== "partition" && who.has(lane.label));
  const partitions = details.lanes.filter((lane) => lane.what === "partition");
  const hurt = partitions.filter((lane) => [...lane.overlaps, ...lane.gaps].some(meets));
  const shared = new Set(hurt.flatMap((lane) => lane.owners.filter(([, start, end]) => lane.overlaps.length && meets([start, end])).map(([owner]) => owner)));
  const others = details.lanes.filter((lane) => shared.has(lane.number) && !members.includes(lane));
  return new Set([...members.slice(0, 8), ...others.slice(0, 4), ...(hurt.length ? hurt : partitions.filter(own)).slice(0, 6)]);
}

function findingElement(found, said) {
  const lines = found.lines.map(([file, line, text]) => [make("div", { class: "place" }, make("bdi", {}, file), line ? `:${line}` : ""), make("pre", {}, text)]);
  return make("div", { class: "one", "data-finding": found.id },
    said ? null : make("p", {}, badge(found.severity), " ", make("b", {}, words(found.kind)), ` ${found.end ? `${utc(found.start)} ` : ""}`, found.text),
    found.partitions ? make("p", { class: "soft" }, make("bdi", {}, found.partitions)) : null,
    lines.length ? make("div", { class: "lines" }, lines) : make("p", { class: "soft" }, "No line shows it: it follows from what is missing."),
    found.lines_hidden ? make("p", { class: "soft" }, `and ${many(found.lines_hidden, "more line")}`) : null);
}

// -- a group -------------------------------------------------------------------------------------------------

const total = (entry, severity) => Object.values(entry.counts?.[severity] || {}).reduce((a, b) => a + b, 0);

function groupElement(entry) {
  const cell = (name, value, cls = "") => make("span", { class: `n ${cls}`, "data-name": name }, value);
  const count = (severity) => cell(`${severity}s`, number(total(entry, severity)), total(entry, severity) ? severity : "soft");
  const element = make("details", { class: "group", "data-key": entry.key },
    make("summary", {}, make("span", { class: "name" }, make("h3", {}, make("bdi", {}, entry.group || "(no group)")), entry.doubted ? make("b", { class: "bad" }, "not enough was understood of its logs") : null),
      count("error"), count("warning"), cell("members", number(entry.members || 0) + (entry.unlogged ? ` + ${number(entry.unlogged)} without log` : "")),
      cell("partitions", number(entry.partitions || 0)), cell("rebalances", number(entry.rebalances || 0)),
      make("span", { class: "when" }, entry.end ? `${utc(entry.start).slice(0, 19)}, ${lasting(Math.max(0, entry.end - entry.start))}` : "")));
  element.addEventListener("toggle", () => {
    if (element.open) fillGroup(element, entry.key);
    if (element.open !== (state.open === entry.key)) replace({ open: element.open ? entry.key : "", at: "" });
  });
  return element;
}

/** Fills a group that was opened, or fills it again where it has changed; what was open in it stays open. */
async function fillGroup(element, key) {
  const stamp = entries.get(key)?.stamp;
  if (element.stamp === stamp) return;
  element.stamp = stamp;
  const old = element.querySelector(":scope > .body");
  const body = old || make("div", { class: "body" }, make("p", { class: "soft" }, "loading"));
  if (!old) element.append(body);
  try {
    const details = await detailsOf(key);
    const opened = new Set([...body.querySelectorAll(".finding[open]")].map((each) => each.dataset.row));
    const before = element.timeline;
    const moved = before && before.until - before.from < before.end - before.begin ? before : {};
    const at = state.open === key && !before ? readSpan(state.at) : moved;
    element.timeline = new Timeline(details, { from: at.from, until: at.until, more: further(details, "lanes"),
      link: (row) => link({ open: key, row: `${key}.${row.id}` }), moved: (from, until) => { if (state.open === key) replace({ at: `${from}-${until}` }); } });
    keepPlace(() => body.replaceChildren(...groupBody(details, element.timeline)));
    for (const each of body.querySelectorAll(".finding")) each.open = opened.has(each.dataset.row);
  } catch (problem) {
    element.stamp = null;
    body.replaceChildren(make("p", { class: "bad" }, problem.message));
  }
}

function groupBody(details, timeline) {
  const legend = Object.entries(details.states).slice(0, 40).map(([name, cls]) =>
    make("span", { class: "key" }, draw("svg", { width: 28, height: 14 }, draw("rect", { class: `st ${cls}`, width: 28, height: 14 })), name));
  const hidden = Object.entries(details.hidden).filter(([, count]) => count).map(([what, count]) => `${number(count)} ${what === "unlogged" ? "members without logs" : what}`);
  return [
    details.lanes.length ? make("p", { class: "states" }, legend) : null,
    details.lanes.length ? timeline.element : null,
    ...drawTrend(details.trend, (from, until) => timeline.move(from, until)).reduce((box, chart) => (box[0].append(chart), box), [make("div", { class: "trends" })]),
    details.rows.length ? make("h4", {}, "Incidents") : null,
    listed(details.rows, (row) => rowElement(row, "group"), 50, further(details, "rows")),
    turns(details),
    rounds(details),
    hidden.length ? make("p", { class: "more" }, `Not in this report, though in the tables beside it: ${hidden.join(", ")}.`) : null,
  ].filter(Boolean);
}

/** The first of some things, and a button for more, which loads further ones where `source` has any. */
function listed(items, build, most, source = null) {
  const box = make("div", { class: "listed" });
  const add = async (from) => {
    if (from >= items.length && source?.has()) await source.load();
    box.append(...items.slice(from, from + most).map(build));
    const left = items.length - from - most;
    if (left <= 0 && !source?.has()) return;
    const act = (event) => { event.target.remove(); add(from + most); };
    box.append(make("button", { type: "button", onclick: act }, left > 0 ? `show ${number(Math.min(left, most))} more of ${number(items.length)}` : "load more"));
  };
  add(0);
  return box;
}

function table(title, heads, rows) {
  const head = make("tr", {}, heads.map(([name, cls]) => make("th", { class: cls || null }, name)));
  const body = rows.map((row) => make("tr", {}, row.map((value, i) => make("td", { class: heads[i][1] || null }, make("bdi", {}, String(value))))));
  return make("details", { class: "turns" }, make("summary", {}, title), make("div", { class: "wide" }, make("table", { class: "lined" }, make("thead", {}, head), make("tbody", {}, body))));
}

function turns({ rebalances, hidden }) {
  if (!rebalances.length) return null;
  const title = hidden.rebalances ? `the ${number(rebalances.length)} longest of ${many(rebalances.length + hidden.rebalances, "rebalance")}` : many(rebalances.length, "rebalance");
  const heads = [["From (UTC)"], ["Took", "n"], ["Cause"], ["Members", "n"], ["Partitions moved", "n"], ["Longest without owner", "n"]];
  return table(title, heads, rebalances.map(([start, end, cause, members, moved, unowned]) => [utc(start), lasting(Math.max(0, end - start)), words(cause), number(members), number(moved), lasting(unowned)]));
}

function rounds({ rounds: told, hidden }) {
  if (!told.length) return null;
  const heads = [["From (UTC)"], ["Generation", "n"], ["Leader"], ["Workers", "n"], ["Protocol", "n"], ["Delay", "n"], ["Held after it", "n"], ["Revoked", "n"], [""]];
  return table(`${many(told.length + hidden.rounds, "round")} of Connect workers`, heads, told.map(([start, generation, leader, workers, version, delay, owned, revoked, failed]) =>
    [utc(start), number(generation), leader, number(workers), `v${version}`, delay ? lasting(delay) : "", number(owned), revoked ? number(revoked) : "", failed ? "no assignment: the leader's config was behind" : ""]));
}
