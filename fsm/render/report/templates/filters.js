// Which incidents and groups fit what a reader has chosen, and in which order they stand.

const has = (text, part) => text.toLowerCase().includes(part);
const wish = (name) => (state[name] || "").toLowerCase();
const instant = (text) => (text ? Date.parse(`${text}Z`) : NaN);

/** Whether an entry or a row reaches into the time that is asked for. */
function inTime({ start, end }) {
  const [from, until] = [instant(state.from), instant(state.until)];
  return !(end < from) && !(start > until);
}

function rowFits(row) {
  const { group } = row;
  const known = names.get(row.key) || [[], []];
  return (
    (!state.severity || row.severity === state.severity) &&
    (!state.kind || (row.kinds || []).includes(state.kind)) &&
    has(group, wish("group")) &&
    (!state.member || (row.members || []).some((each) => has(each, wish("member")))) &&
    (!state.topic || (row.topics?.length ? row.topics : known[1]).some((each) => has(each, wish("topic")))) &&
    inTime(row) &&
    (!state.q ||
      [
        group,
        row.text,
        row.cause || "",
        row.next || "",
        ...(row.members || []),
        ...(row.topics || []),
        ...(row.kinds || []).map(words),
      ].some((each) => has(each, wish("q"))))
  );
}

function groupFits(entry) {
  const [members, topics] = names.get(entry.key) || [[], []];
  const counts = state.severity ? [entry.kinds?.[state.severity] || {}] : Object.values(entry.kinds || {});
  return (
    (!state.severity && !state.kind
      ? true
      : counts.some((each) => (state.kind ? each[state.kind] : Object.keys(each).length))) &&
    has(entry.group || "", wish("group")) &&
    (!state.member || members.some((each) => has(each, wish("member")))) &&
    (!state.topic || topics.some((each) => has(each, wish("topic")))) &&
    inTime(entry) &&
    (!state.q ||
      [entry.group || "", ...members, ...topics].some((each) => has(each, wish("q"))) ||
      matching.has(entry.key))
  );
}

let matching = new Set(); // keys of groups with a row that fits

function worst(a, b) {
  const kinds = Object.keys(summary.kinds);
  const rank = (row) => [
    SEVERITIES.indexOf(row.severity),
    row.still ? 0 : 1,
    kinds.indexOf(row.kinds?.[0]),
    row.still ? 0 : row.start - row.end,
    row.group,
    row.start,
    row.id,
  ];
  const [one, other] = [rank(a), rank(b)];
  const i = one.findIndex((value, j) => value !== other[j]);
  return i < 0 ? 0 : one[i] < other[i] ? -1 : 1;
}

const SORTS = {
  group: (entry) => entry.group || "",
  errors: (entry) => -total(entry, "error"),
  warnings: (entry) => -total(entry, "warning"),
  members: (entry) => -(entry.members || 0),
  partitions: (entry) => -(entry.partitions || 0),
  rebalances: (entry) => -(entry.rebalances || 0),
  time: (entry) => entry.start,
};

function sorted(found) {
  const by = SORTS[state.sort];
  if (!by)
    return found.sort(
      (a, b) =>
        total(b, "error") - total(a, "error") ||
        total(b, "warning") - total(a, "warning") ||
        total(b, "info") - total(a, "info") ||
        (b.rebalances || 0) - (a.rebalances || 0) ||
        (a.group < b.group ? -1 : 1),
    );
  return found.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
}

