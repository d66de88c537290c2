// Incidents: a row in a list; opened, the moment on the timeline and the lines that show it.

/** A row: what is wrong, of whom, since when, why and what to try; opened, the moment and the lines. */
function rowElement(row, where) {
  const entry = entries.get(row.key) || {};
  const id = `${row.key}.${row.id}`;
  const facts = [
    where === "page" &&
      entry.group &&
      fact("group", make("a", { href: link({ open: row.key }) }, make("bdi", {}, entry.group))),
    row.members &&
      fact(
        "members",
        make("bdi", {}, row.members.slice(0, 3).join(", ")),
        row.members.length + (row.members_hidden || 0) > 3
          ? ` and ${row.members.length + (row.members_hidden || 0) - 3} more`
          : "",
      ),
    row.end ? fact("since", `${utc(row.start).slice(0, 19)} UTC`) : null,
    row.end > row.start
      ? fact("for", lasting(row.end - row.start), row.still ? make("b", { class: "still" }, " and still so") : "")
      : null,
    row.cause && fact("cause", words(row.cause)),
  ];
  const element = make(
    "details",
    { class: `finding ${row.severity}`, "data-row": id },
    make(
      "summary",
      {},
      badge(row.severity, row.severity),
      make("span", { class: "say" }, row.text),
      make("span", { class: "facts" }, facts),
      row.next ? make("span", { class: "next" }, make("b", {}, "Try: "), row.next) : null,
      make(
        "span",
        { class: "jump" },
        row.end && entry.group ? make("a", { href: link({ open: row.key, at: around(row) }) }, "timeline") : null,
        make("a", { href: link(where === "page" ? { row: id } : { open: row.key, row: id }) }, "lines"),
      ),
    ),
  );
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
    (row.members || []).length > 3
      ? [
          "Members",
          make(
            "bdi",
            {},
            row.members.slice(0, 200).join(", "),
            row.members.length > 200 ? ` and ${number(row.members.length - 200)} more, which have lanes below` : "",
          ),
        ]
      : null,
    causes[row.cause] ? ["Cause", causes[row.cause]] : null,
    row.setting ? ["Look at", make("code", {}, row.setting)] : null,
    row.hazard ? ["Weak spot of Kafka", row.hazard] : null,
    ...(row.kinds || []).map((kind) => kinds[kind] && [words(kind), make("span", { class: "soft" }, kinds[kind])]),
  ].filter(Boolean);
  const parts = [
    make(
      "dl",
      {},
      facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
    ),
  ];
  const shown = concerned(row, found, details);
  if (shown.size && row.end) {
    const margin = Math.max(2000, Math.round((row.end - row.start) / 2));
    parts.push(
      new Timeline(details, {
        from: row.start - margin,
        until: row.end + margin,
        shows: (lane) => shown.has(lane),
        link: null,
      }).element,
    );
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
  const own = (lane) =>
    lane.owners?.some(([owner, start, end]) => numbers.has(owner) && (meets([start, start]) || meets([end, end])));
  const members = details.lanes.filter((lane) => lane.what !== "partition" && who.has(lane.label));
  const partitions = details.lanes.filter((lane) => lane.what === "partition");
  const hurt = partitions.filter((lane) => [...lane.overlaps, ...lane.gaps].some(meets));
  const shared = new Set(
    hurt.flatMap((lane) =>
      lane.owners.filter(([, start, end]) => lane.overlaps.length && meets([start, end])).map(([owner]) => owner),
    ),
  );
  const others = details.lanes.filter((lane) => shared.has(lane.number) && !members.includes(lane));
  return new Set([
    ...members.slice(0, 8),
    ...others.slice(0, 4),
    ...(hurt.length ? hurt : partitions.filter(own)).slice(0, 6),
  ]);
}

function findingElement(found, said) {
  const lines = found.lines.map(([file, line, text]) => [
    make("div", { class: "place" }, make("bdi", {}, file), line ? `:${line}` : ""),
    make("pre", {}, text),
  ]);
  return make(
    "div",
    { class: "one", "data-finding": found.id },
    said
      ? null
      : make(
          "p",
          {},
          badge(found.severity),
          " ",
          make("b", {}, words(found.kind)),
          ` ${found.end ? `${utc(found.start)} ` : ""}`,
          found.text,
        ),
    found.partitions ? make("p", { class: "soft" }, make("bdi", {}, found.partitions)) : null,
    lines.length
      ? make("div", { class: "lines" }, lines)
      : make("p", { class: "soft" }, "No line shows it: it follows from what is missing."),
    found.lines_hidden ? make("p", { class: "soft" }, `and ${many(found.lines_hidden, "more line")}`) : null,
  );
}
