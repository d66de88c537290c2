// Above the lanes of a timeline: flags of incidents, ticks, rebalances, and a map of all of the time.

const FLAG_ROWS = 4;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((s) => s * 1000),
  ...[1, 2, 5, 10, 15, 30].map((m) => m * 60000),
  ...[1, 2, 3, 6, 12].map((h) => h * 3600000),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((d) => d * 86400000),
];

function paintHead(chart) {
  const { flags, rows } = drawFlags(chart);
  const top = rows * 18 + (rows ? 4 : 0);
  const parts = [...flags, ...drawTicks(chart, top)];
  const turns = chart.bunch(chart.group.rebalances, (r) => [r[0], Math.max(r[0], r[1])]);
  for (const bunch of turns) {
    const end = Math.max(...bunch.map((r) => r[1]));
    const [start, , cause, members, moved] = bunch[0];
    const who = `${many(members, "member")}, ${many(moved, "partition")} moved`;
    const tip =
      bunch.length > 1
        ? `${bunch.length} rebalances\n${span(start, end)}`
        : `rebalance ${words(cause)}\n${span(start, end)}\n${who}`;
    parts.push(chart.bar(start, end, top + 34, 8, "turn", tip));
  }
  const height = top + 44;
  setDrawing(chart.head, chart.width, height, parts);
  const share = (ms) => ((ms - chart.begin) / (chart.end - chart.begin)) * chart.width;
  const marks = chart.group.rows
    .slice(0, 400)
    .reverse()
    .map((row) =>
      draw("rect", {
        class: `f-${row.severity}`,
        x: share(row.start),
        y: 2,
        width: Math.max(2, share(row.end) - share(row.start)),
        height: 12,
      }),
    );
  setDrawing(chart.map, chart.width, 16, [
    draw("rect", { class: "ground", width: chart.width, height: 16 }),
    ...marks,
    draw("rect", {
      class: "frame",
      x: share(chart.from),
      y: 1,
      width: Math.max(3, share(chart.until) - share(chart.from)),
      height: 14,
    }),
  ]);
  chart.told.textContent = `${utc(chart.from)} UTC, ${lasting(Math.round(chart.until - chart.from))}`;
}

/** Rows of flags, each where its incident begins; what has no room joins the last flag of the lowest row. */
function drawFlags(chart) {
  const rows = [];
  const placed = [];
  let crowd = null;
  const visible = chart.group.rows.filter((row) => row.end >= chart.from && row.start <= chart.until);
  for (const row of visible.slice(0, 1000).sort((a, b) => a.start - b.start)) {
    const letter = row.severity[0].toUpperCase();
    const left = Math.max(0, Math.min(chart.x(row.start), chart.width - 50));
    let at = rows.findIndex((edge) => edge <= left);
    if (at < 0 && rows.length < FLAG_ROWS) at = rows.push(0) - 1;
    if (at < 0) {
      crowd.push(row);
      continue;
    }
    const together = [row];
    placed.push([at, left, letter, together]);
    if (at === FLAG_ROWS - 1) crowd = together;
    rows[at] = left + (at === FLAG_ROWS - 1 ? 46 : 20);
  }
  const flags = placed.map(([at, left, letter, together]) => {
    const first = together[0];
    const worst = SEVERITIES.find((severity) => together.some((row) => row.severity === severity));
    const label = together.length > 1 ? `${letter}+${together.length - 1}` : letter;
    const begin = chart.x(first.start);
    const end = Math.max(chart.x(first.end), begin + 2);
    return draw(
      chart.link ? "a" : "g",
      { class: `flag ${worst}`, href: chart.link?.(first) ?? null },
      draw(
        "title",
        {},
        together
          .slice(0, 6)
          .map((row) => `${words(row.kinds?.[0] || "")}: ${row.text}`)
          .join("\n"),
      ),
      draw("path", { class: "stem", d: `M${begin},${at * 18 + 15}H${end}` }),
      draw("rect", { x: left, y: at * 18, width: 8 * label.length + 8, height: 14, rx: 3 }),
      draw("text", { x: left + 4, y: at * 18 + 11 }, label),
    );
  });
  return { flags, rows: rows.length };
}

function drawTicks(chart, top) {
  const least = (90 * (chart.until - chart.from)) / chart.width;
  const step = STEPS.find((each) => each >= least) || (Math.floor(least / 86400000) + 1) * 86400000;
  const ticks = [];
  chart.grid = "";
  const first = Math.ceil(chart.from / step) * step;
  for (let i = 0; i < 200 && first + i * step <= chart.until; i += 1) {
    const at = first + i * step;
    const x = chart.x(at);
    chart.grid += `M${x},0V999`;
    if (x < 30 || x > chart.width - 30) continue;
    const after = at - chart.begin;
    ticks.push(
      draw("path", { class: "tick", d: `M${x},${top + 28}v5` }),
      draw("text", { class: "time", x, y: top + 12 }, clock(at, step < 1000)),
      draw("text", { class: "after", x, y: top + 25 }, step >= 43200000 ? utc(at).slice(0, 10) : `+${lasting(after)}`),
    );
  }
  return ticks;
}

function setDrawing(svg, width, height, parts) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren(...parts);
}
