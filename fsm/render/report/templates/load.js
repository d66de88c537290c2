// Pieces of data: they are in the page, or loaded from files beside it when a reader opens what they are about.

const held = new Map(); // name of a piece -> {stamp, promise of its data}
const waiting = new Map(); // name of a piece -> those who wait for it

/** Files beside the page call this with what they hold. */
const rebalanceReport = {
  take(name, index, data) {
    (waiting.get(name) || []).forEach((resolve) => resolve(data));
    waiting.delete(name);
  },
};

/** A piece of data from the page or from its file; `stamp` tells a newer one from an older. */
function load(name, stamp = "") {
  const place = document.querySelector(`script[data-piece="${CSS.escape(name)}"]`);
  if (place && !summary.refresh) return Promise.resolve(JSON.parse(place.textContent));
  if (held.get(name)?.stamp === stamp) return held.get(name).promise;
  const promise = new Promise((resolve, reject) => {
    waiting.set(name, [...(waiting.get(name) || []), resolve]); // two versions of it may be on their way
    const script = make("script", {
      src: `report/${name}.js${stamp && `?${stamp}`}`,
      onload: () => script.remove(),
      onerror: () => {
        script.remove();
        held.delete(name);
        reject(new Error(`report/${name}.js cannot be loaded: keep the folder "report" beside this page`));
      },
    });
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
      const details = {
        ...data,
        key,
        stamp,
        loaded: { rows: 0, findings: 0, lanes: 0 },
        found: new Map(data.findings.map((each) => [each.id, each])),
      };
      details.rows.forEach((row) => {
        row.key = key;
      });
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
  if (what === "rows")
    more.forEach((row) => {
      row.key = details.key;
    });
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
