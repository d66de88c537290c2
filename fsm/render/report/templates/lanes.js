// The lanes of a timeline: a member's states, marks and assignments, the owners of partitions.

const BAR = 16;
const ROW = 15;
const MOST_OWNERS = 4;

function paintLane(chart, row) {
  if (!chart.width) return;
  const { lane, svg } = row;
  const height = heightOf(lane);
  const errors = chart.group.rows.filter((each) => each.severity === "error").slice(0, 40);
  const bands = errors
    .filter((each) => each.end >= chart.from && each.start <= chart.until)
    .map((each) =>
      draw("rect", {
        class: "band",
        x: chart.x(each.start),
        y: 0,
        width: Math.max(2, chart.x(each.end) - chart.x(each.start)),
        height,
      }),
    );
  const parts = lane.what === "partition" ? drawPartition(chart, lane, height) : drawMember(chart, lane);
  setDrawing(svg, chart.width, height, [draw("path", { class: "grid", d: chart.grid }), ...bands, ...parts]);
}

function drawMember(chart, lane) {
  const { states } = chart.group;
  const parts = chart
    .bunch(lane.states, ([, start, end]) => [start, Math.max(start, end)])
    .map((bunch) => {
      const [state, start] = bunch[0];
      const end = Math.max(...bunch.map((each) => each[2]));
      if (bunch.length === 1)
        return chart.bar(start, end, 14, BAR, `st ${states[state] || "moving0"}`, `${state}\n${span(start, end)}`, [
          state,
        ]);
      const hurt = bunch.some(([each]) => (states[each] || "").startsWith("bad"));
      const names = [...new Set(bunch.map(([each]) => each))].slice(0, 8).join(", ");
      return chart.bar(
        start,
        end,
        14,
        BAR,
        `st busy${hurt ? " hurt" : ""}`,
        `${bunch.length} states within ${lasting(end - start)}: ${names}\n${clock(start)}`,
      );
    });
  for (const bunch of chart.bunch(lane.marks, ([at]) => [at, at])) {
    const shape = Object.keys(summary.glyphs).find((each) => bunch.some((mark) => mark[2] === each));
    const lines = bunch.slice(0, 6).map(([at, kind, , text]) => `${clock(at)} ${kind} ${text}`.trim());
    if (bunch.length > 6) lines.push(`and ${bunch.length - 6} more`);
    parts.push(
      draw(
        "path",
        { class: `mk ${shape}`, transform: `translate(${chart.x(bunch[0][0])},7)`, d: summary.glyphs[shape] },
        draw("title", {}, lines.join("\n")),
      ),
    );
  }
  const rows = [
    ["target", lane.target],
    ["current", lane.current],
  ].filter(([, own]) => own.length);
  rows.forEach(([name, own], row) => parts.push(...drawAssigned(chart, name, own, 34 + row * ROW, lane.target)));
  return parts;
}

function drawAssigned(chart, name, own, top, targets) {
  const what = name === "target" ? "coordinator: target" : "coordinator: assigned";
  return chart
    .bunch(own, ([start, end]) => [start, Math.max(start, end)])
    .map((bunch) => {
      const [start, , shade, size, state, epoch, owned, given] = bunch[0];
      const end = Math.max(...bunch.map((each) => each[1]));
      if (bunch.length > 1)
        return chart.bar(
          start,
          end,
          top,
          ROW - 3,
          "as busy",
          `${what}, ${bunch.length} times within ${lasting(end - start)}\n${clock(start)}`,
        );
      const moved = targets.map(([at]) => at).filter((at) => at <= start);
      const lines = [
        [what, epoch, state].filter(Boolean).join(", "),
        `${many(size, "partition")} ${owned}`.trim(),
        given && `to give up: ${given}`,
        span(start, end),
        name === "current" && moved.length && `${lasting(start - Math.max(...moved))} after its target moved`,
      ].filter(Boolean);
      const says = owned || (shade === "unreleased" ? "waits for others" : "nothing");
      const short = (text) => (text.split("-[").length === 2 ? text.slice(text.indexOf("-[") + 1) : text);
      const texts = given
        ? [`${says}, gives up ${given}`, `gives up ${given}`, `gives up ${short(given)}`, "gives up"]
        : [says, short(says)];
      return chart.bar(start, end, top, ROW - 3, `as ${name} ${shade}`, lines.join("\n"), [
        epoch && `${epoch}: ${texts[0]}`,
        ...texts,
      ]);
    });
}

function drawPartition(chart, lane, height) {
  const unit = lane.label.startsWith("connector ");
  const parts = [];
  packOwners(lane).forEach((row, i) =>
    parts.push(
      ...chart
        .bunch(row, ([, start, end]) => [start, Math.max(start, end)])
        .map((bunch) => drawOwner(chart, bunch, 4 + i * (BAR + 1))),
    ),
  );
  for (const [name, own, says] of [
    ["gap", lane.gaps, unit ? "runs nowhere" : "no owner"],
    ["overlap", lane.overlaps, unit ? "runs twice" : "several owners"],
  ])
    for (const bunch of chart.bunch(own, ([start, end]) => [start, Math.max(start, end)])) {
      const start = bunch[0][0];
      const end = Math.max(...bunch.map((each) => each[1]));
      const top = name === "gap" ? 4 : 1;
      const times = bunch.length > 1 ? `, ${bunch.length} times` : "";
      parts.push(
        chart.bar(
          start,
          end,
          top,
          height - 2 * top,
          name,
          `${says}\n${span(start, end)}${times}`,
          name === "gap" ? [`${says} ${lasting(end - start)}`] : [],
        ),
      );
      const left = chart.x(start);
      if (chart.x(end) - left < 12)
        parts.push(
          draw("path", { class: name === "gap" ? "void" : "alarm", d: `M${left + 1},${height - 10}l6,10h-12z` }),
        );
    }
  for (const [start, end] of lane.waits)
    if (end >= chart.from && start <= chart.until)
      parts.push(chart.bar(start, end, height - 6, 4, "wait", `waits for a scheduled delay\n${span(start, end)}`));
  return parts;
}

function drawOwner(chart, bunch, top) {
  const [who, start, , ended] = bunch[0];
  const end = Math.max(...bunch.map((each) => each[2]));
  if (bunch.length > 1) {
    const owners = many(new Set(bunch.map((each) => each[0])).size, "member");
    const tip = `owned ${bunch.length} times by ${owners}\n${span(start, end)}`;
    return chart.bar(start, end, top, BAR, "ow busy", tip);
  }
  const name = chart.group.names[who - 1];
  const drawn = chart.bar(
    start,
    end,
    top,
    BAR,
    `ow m${(who - 1) % 10}`,
    `${who} ${name}\n${span(start, end)}, ${words(ended)}`,
    [`${who} ${name}`, String(who)],
  );
  if (["lost", "dropped", "restarted", "log_ended", "closed"].includes(ended) && end > chart.from && end < chart.until)
    drawn.append(draw("path", { class: `end ${ended}`, d: `M${chart.x(end)},${top - 2}v${BAR + 4}` }));
  return drawn;
}

function heightOf(lane) {
  if (lane.what === "partition") return 8 + packOwners(lane).length * (BAR + 1);
  const rows = (lane.target.length > 0) + (lane.current.length > 0);
  return 34 + rows * ROW + (rows ? 2 : 0);
}

/** Owners in one row, or where there are several at a time, in rows of their own. */
function packOwners(lane) {
  if (!lane.overlaps.length) return [lane.owners];
  if (lane.packed) return lane.packed;
  const rows = [];
  for (const owned of [...lane.owners].sort((a, b) => a[1] - b[1])) {
    const free = rows.find((row) => row.at(-1)[2] <= owned[1]) || (rows.length >= MOST_OWNERS ? rows.at(-1) : null);
    if (free) free.push(owned);
    else rows.push([owned]);
  }
  return (lane.packed = rows.length ? rows : [[]]);
}
