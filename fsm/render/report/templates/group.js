// Groups: a row in a list; opened, everything about one.

const total = (entry, severity) => entry.incidents?.[severity] || 0;

function groupElement(entry) {
  const cell = (name, value, cls = "") => make("span", { class: `n ${cls}`, "data-name": name }, value);
  const count = (severity) =>
    cell(`${severity}s`, number(total(entry, severity)), total(entry, severity) ? severity : "soft");
  const element = make(
    "details",
    { class: "group", "data-key": entry.key },
    make(
      "summary",
      {},
      make(
        "span",
        { class: "name" },
        make("h3", {}, make("bdi", {}, entry.group || "(no group)")),
        entry.doubted ? make("b", { class: "bad" }, "not enough was understood of its logs") : null,
      ),
      count("error"),
      count("warning"),
      cell("members", number(entry.members || 0) + (entry.unlogged ? ` + ${number(entry.unlogged)} without log` : "")),
      cell("partitions", number(entry.partitions || 0)),
      cell("rebalances", number(entry.rebalances || 0)),
      make(
        "span",
        { class: "when" },
        entry.end ? `${utc(entry.start).slice(0, 19)}, ${lasting(Math.max(0, entry.end - entry.start))}` : "",
      ),
    ),
  );
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
    element.timeline = new Timeline(details, {
      from: at.from,
      until: at.until,
      more: further(details, "lanes"),
      link: (row) => link({ open: key, row: `${key}.${row.id}` }),
      moved: (from, until) => {
        if (state.open === key) replace({ at: `${from}-${until}` });
      },
    });
    keepPlace(() => body.replaceChildren(...groupBody(details, element.timeline)));
    for (const each of body.querySelectorAll(".finding")) each.open = opened.has(each.dataset.row);
  } catch (problem) {
    element.stamp = null;
    body.replaceChildren(make("p", { class: "bad" }, problem.message));
  }
}

function groupBody(details, timeline) {
  const legend = Object.entries(details.states)
    .slice(0, 40)
    .map(([name, cls]) =>
      make(
        "span",
        { class: "key" },
        draw("svg", { width: 28, height: 14 }, draw("rect", { class: `st ${cls}`, width: 28, height: 14 })),
        name,
      ),
    );
  const hidden = Object.entries(details.hidden)
    .filter(([, count]) => count)
    .map(([what, count]) => `${number(count)} ${what === "unlogged" ? "members without logs" : what}`);
  return [
    details.lanes.length ? make("p", { class: "states" }, legend) : null,
    details.lanes.length ? timeline.element : null,
    details.rows.length ? make("h4", {}, "Incidents") : null,
    listed(details.rows, (row) => rowElement(row, "group"), 50, further(details, "rows")),
    make(
      "div",
      { class: "trends" },
      drawTrend(details.trend, (from, until) => timeline.move(from, until)),
    ),
    turns(details),
    rounds(details),
    hidden.length
      ? make("p", { class: "more" }, `Not in this report, though in the tables beside it: ${hidden.join(", ")}.`)
      : null,
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
    const act = (event) => {
      event.target.remove();
      add(from + most);
    };
    box.append(
      make(
        "button",
        { type: "button", onclick: act },
        left > 0 ? `show ${number(Math.min(left, most))} more of ${number(items.length)}` : "load more",
      ),
    );
  };
  add(0);
  return box;
}

function table(title, heads, rows) {
  const head = make(
    "tr",
    {},
    heads.map(([name, cls]) => make("th", { class: cls || null }, name)),
  );
  const body = rows.map((row) =>
    make(
      "tr",
      {},
      row.map((value, i) => make("td", { class: heads[i][1] || null }, make("bdi", {}, String(value)))),
    ),
  );
  return make(
    "details",
    { class: "turns" },
    make("summary", {}, title),
    make("div", { class: "wide" }, make("table", { class: "lined" }, make("thead", {}, head), make("tbody", {}, body))),
  );
}

function turns({ rebalances, hidden }) {
  if (!rebalances.length) return null;
  const title = hidden.rebalances
    ? `the ${number(rebalances.length)} longest of ${many(rebalances.length + hidden.rebalances, "rebalance")}`
    : many(rebalances.length, "rebalance");
  const heads = [
    ["From (UTC)"],
    ["Took", "n"],
    ["Cause"],
    ["Members", "n"],
    ["Partitions moved", "n"],
    ["Longest without owner", "n"],
  ];
  return table(
    title,
    heads,
    rebalances.map(([start, end, cause, members, moved, unowned]) => [
      utc(start),
      lasting(Math.max(0, end - start)),
      words(cause),
      number(members),
      number(moved),
      lasting(unowned),
    ]),
  );
}

function rounds({ rounds: told, hidden }) {
  if (!told.length) return null;
  const heads = [
    ["From (UTC)"],
    ["Generation", "n"],
    ["Leader"],
    ["Workers", "n"],
    ["Protocol", "n"],
    ["Delay", "n"],
    ["Held after it", "n"],
    ["Revoked", "n"],
    [""],
  ];
  return table(
    `${many(told.length + hidden.rounds, "round")} of Connect workers`,
    heads,
    told.map(([start, generation, leader, workers, version, delay, owned, revoked, failed]) => [
      utc(start),
      number(generation),
      leader,
      number(workers),
      `v${version}`,
      delay ? lasting(delay) : "",
      number(owned),
      revoked ? number(revoked) : "",
      failed ? "no assignment: the leader's config was behind" : "",
    ]),
  );
}
