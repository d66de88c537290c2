// The timeline of a group: findings and time above, a lane for each member and for partitions with one history.
// A lane is drawn when it comes into view. What is thinner than two pixels is drawn two pixels wide, and what would then
// lie on top of each other is bunched into one bar that says how much it stands for, until one zooms in.

const BAR = 16;
const ROW = 15;
const THINNEST = 2;
const MOST_OWNERS = 4;
const LANES = 100;
const FLAG_ROWS = 4;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].map((s) => s * 1000), ...[1, 2, 5, 10, 15, 30].map((m) => m * 60000),
  ...[1, 2, 3, 6, 12].map((h) => h * 3600000), ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((d) => d * 86400000)];
const HEADINGS = { coordinator: "The coordinator's own words", member: "Members", unlogged: "Members without logs", partition: "Partitions" };

class Timeline {
  /** Of the lanes that `shows` lets pass; `more` has further ones, or is null. `link` gives the address of a finding. */
  constructor(group, { from, until, shows = null, more = null, link = null, moved = () => {} }) {
    Object.assign(this, { group, shows, more, link, moved, most: LANES, query: "" });
    this.begin = group.start;
    this.end = Math.max(group.end, group.start + 1);
    this.from = from ?? this.begin;
    this.until = until ?? this.end;
    this.seen = new Set();
    this.watch = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), { rootMargin: "300px" });
    this.build();
    this.size = new ResizeObserver(() => this.resize());
    this.size.observe(this.head);
  }

  build() {
    const button = (text, title, act) => make("button", { type: "button", title, "aria-label": title, onclick: act }, text);
    this.told = make("output", { class: "window" });
    this.find = make("input", { type: "search", placeholder: "member or partition", "aria-label": "show lanes of",
      oninput: () => this.search(this.find.value.toLowerCase()) });
    this.tools = make("div", { class: "tools" },
      button("+", "zoom in", () => this.zoom(0.5)), button("−", "zoom out", () => this.zoom(2)),
      button("◀", "earlier", () => this.pan(-0.4)), button("▶", "later", () => this.pan(0.4)),
      button("all", "show all of the time", () => this.move(this.begin, this.end)), this.shows ? null : this.find, this.told);
    this.map = draw("svg", { class: "map", height: 16, role: "img", "aria-label": "all of the time; what is shown below is framed" });
    this.head = draw("svg", { class: "axis", role: "img", "aria-label": "time axis" });
    this.lanes = make("div", { class: "lanes" });
    this.element = make("div", { class: "chart", tabindex: 0, role: "group",
      "aria-label": "timeline; plus and minus zoom, arrow keys move, 0 shows all", onkeydown: (event) => this.press(event) },
      this.tools, make("div", { class: "top" }, make("div", { class: "lab" }, "UTC"), make("div", { class: "plot" }, this.map, this.head)), this.lanes);
    this.element.timeline = this;
    this.element.addEventListener("wheel", (event) => this.turn(event), { passive: false });
    this.element.addEventListener("pointerdown", (event) => this.grab(event));
    this.list();
  }

  /** The lanes that are asked for, with headings. */
  list() {
    this.watch.disconnect();
    this.seen.clear();
    this.lanes.replaceChildren();
    const fits = (lane) => (!this.shows || this.shows(lane)) && (!this.query || `${lane.label} ${lane.note || ""}`.toLowerCase().includes(this.query));
    const wanted = this.group.lanes.filter(fits);
    const place = (lane) => Object.keys(HEADINGS).indexOf(lane.what) * 2 + (wanted.length > 40 && !lane.hurt ? 1 : 0);
    const order = [...wanted].sort((a, b) => place(a) - place(b) || (a.number || 0) - (b.number || 0));
    let heading = "";
    for (const lane of order.slice(0, this.most)) {
      const title = lane.label.startsWith("connector ") ? "Connectors and tasks" : HEADINGS[lane.what];
      if (title !== heading && !this.shows) this.lanes.append(make("h5", {}, title));
      heading = title;
      this.lanes.append(this.row(lane));
    }
    if (order.length > this.most) this.button(`show ${number(Math.min(LANES, order.length - this.most))} more of ${many(order.length, "lane")}`, () => { this.most += LANES; this.list(); });
    else if (this.more?.has()) this.button("load more lanes", async () => { await this.more.load(); this.most += LANES; this.list(); });
    if (!order.length && this.query) this.lanes.append(make("p", { class: "soft" }, "No lane is called so."));
  }

  button(text, act) {
    const once = (event) => { event.target.disabled = true; act(); };
    this.lanes.append(make("p", {}, make("button", { type: "button", onclick: once }, text)));
  }

  /** Shows the lanes that are called so, wherever they are. */
  async search(query) {
    this.query = query;
    while (this.query && this.more?.has()) await this.more.load();
    if (this.query === query) this.list();
  }

  row(lane) {
    const svg = draw("svg", { height: heightOf(lane), role: "img", "aria-label": lane.label });
    const rows = [lane.target?.length && "coordinator: target", lane.current?.length && "coordinator: assigned"].filter(Boolean);
    const badge = lane.number ? make("i", { class: `no m${(lane.number - 1) % 10}` }, String(lane.number)) : null;
    const small = [lane.note && make("small", {}, lane.note), rows.map((row) => make("small", { class: "below" }, row))].flat();
    const row = make("div", { class: "lane" }, make("div", { class: "lab", title: `${lane.label}\n${lane.note || ""}` }, badge, make("b", {}, lane.label), small), make("div", { class: "plot" }, svg));
    row.lane = lane;
    row.svg = svg;
    this.watch.observe(row);
    return row;
  }

  see({ target, isIntersecting }) {
    if (!isIntersecting) return this.seen.delete(target);
    this.seen.add(target);
    this.paint(target);
  }

  resize() {
    const width = Math.round(this.head.getBoundingClientRect().width);
    if (!width || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  /** Every lane, for paper. */
  paintAll() {
    for (const row of this.lanes.querySelectorAll(".lane")) this.paint(row);
  }

  redraw() {
    if (!this.width) return;
    this.paintHead();
    for (const row of this.seen) this.paint(row);
  }

  x(ms) {
    return ((Math.min(Math.max(ms, this.from), this.until) - this.from) / (this.until - this.from)) * this.width;
  }

  /** Shows from then until then. */
  move(from, until) {
    const least = 20;
    const length = Math.min(Math.max(until - from, least), this.end - this.begin);
    this.from = Math.max(this.begin, Math.min(from, this.end - length));
    this.until = this.from + length;
    this.moved(Math.round(this.from), Math.round(this.until));
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.redraw());
  }

  zoom(factor, at = (this.from + this.until) / 2) {
    this.move(at - (at - this.from) * factor, at + (this.until - at) * factor);
  }

  pan(share) {
    const by = (this.until - this.from) * share;
    const from = Math.max(this.begin, Math.min(this.from + by, this.end - (this.until - this.from)));
    this.move(from, from + this.until - this.from);
  }

  press(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2), 0: () => this.move(this.begin, this.end), Home: () => this.move(this.begin, this.begin + this.until - this.from),
      End: () => this.move(this.end - this.until + this.from, this.end) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** The wheel zooms with Ctrl, as a pinch on a touch pad does, and moves sideways; else the page scrolls. */
  turn(event) {
    if (event.ctrlKey) {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this.at(event.clientX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX / this.width);
    }
  }

  at(clientX) {
    return this.from + ((clientX - this.head.getBoundingClientRect().left) / this.width) * (this.until - this.from);
  }

  /** Drags the time along; two fingers pinch. On the map it goes where one points. */
  grab(event) {
    if (event.button || event.target.closest("button, input, a, .lab")) return;
    if (event.target.closest(".map")) {
      const half = (this.until - this.from) / 2;
      const box = this.map.getBoundingClientRect();
      const at = this.begin + ((event.clientX - box.left) / box.width) * (this.end - this.begin);
      return this.move(at - half, at + half);
    }
    if (!event.target.closest(".plot")) return;
    const fingers = this.fingers ??= new Map();
    fingers.set(event.pointerId, event.clientX);
    const places = () => [...fingers.values()];
    const spread = () => Math.max(20, Math.abs(places()[0] - (places()[1] ?? places()[0])));
    const drag = (next) => {
      if (!fingers.has(next.pointerId)) return;
      const before = spread();
      const by = next.clientX - fingers.get(next.pointerId);
      fingers.set(next.pointerId, next.clientX);
      if (fingers.size === 2) this.zoom(before / spread(), this.at((places()[0] + places()[1]) / 2));
      else if (by) this.pan(-by / this.width);
    };
    const drop = (next) => {
      fingers.delete(next.pointerId);
      if (fingers.size) return;
      removeEventListener("pointermove", drag);
      removeEventListener("pointerup", drop);
      removeEventListener("pointercancel", drop);
    };
    if (fingers.size > 1) return;
    addEventListener("pointermove", drag);
    addEventListener("pointerup", drop);
    addEventListener("pointercancel", drop);
  }

  // -- above the lanes ---------------------------------------------------------------------------------------

  paintHead() {
    const { flags, rows } = this.flags();
    const top = rows * 18 + (rows ? 4 : 0);
    const parts = [...flags, ...this.ticks(top)];
    const turns = this.bunch(this.group.rebalances, (r) => [r[0], Math.max(r[0], r[1])]);
    for (const bunch of turns) {
      const end = Math.max(...bunch.map((r) => r[1]));
      const [start, , cause, members, moved] = bunch[0];
      const tip = bunch.length > 1 ? `${bunch.length} rebalances\n${span(start, end)}` : `rebalance ${words(cause)}\n${span(start, end)}\n${many(members, "member")}, ${many(moved, "partition")} moved`;
      parts.push(this.bar(start, end, top + 34, 8, "turn", tip));
    }
    const height = top + 44;
    set(this.head, this.width, height, parts);
    const share = (ms) => ((ms - this.begin) / (this.end - this.begin)) * this.width;
    const marks = this.group.rows.slice(0, 400).reverse().map((row) => draw("rect", { class: `f-${row.severity}`, x: share(row.start), y: 2, width: Math.max(2, share(row.end) - share(row.start)), height: 12 }));
    set(this.map, this.width, 16, [draw("rect", { class: "ground", width: this.width, height: 16 }), ...marks,
      draw("rect", { class: "frame", x: share(this.from), y: 1, width: Math.max(3, share(this.until) - share(this.from)), height: 14 })]);
    this.told.textContent = `${utc(this.from)} UTC, ${lasting(Math.round(this.until - this.from))}`;
  }

  /** Rows of flags, each where its incident begins; what has no room joins the last flag of the lowest row. */
  flags() {
    const rows = [];
    const placed = [];
    let crowd = null;
    const visible = this.group.rows.filter((row) => row.end >= this.from && row.start <= this.until);
    for (const row of visible.slice(0, 1000).sort((a, b) => a.start - b.start)) {
      const letter = row.severity[0].toUpperCase();
      const left = Math.max(0, Math.min(this.x(row.start), this.width - 50));
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
      const begin = this.x(first.start);
      const end = Math.max(this.x(first.end), begin + 2);
      return draw(this.link ? "a" : "g", { class: `flag ${worst}`, href: this.link?.(first) ?? null },
        draw("title", {}, together.slice(0, 6).map((row) => `${words(row.kinds?.[0] || "")}: ${row.text}`).join("\n")),
        draw("path", { class: "stem", d: `M${begin},${at * 18 + 15}H${end}` }),
        draw("rect", { x: left, y: at * 18, width: 8 * label.length + 8, height: 14, rx: 3 }),
        draw("text", { x: left + 4, y: at * 18 + 11 }, label));
    });
    return { flags, rows: rows.length };
  }

  ticks(top) {
    const least = (90 * (this.until - this.from)) / this.width;
    const step = STEPS.find((each) => each >= least) || (Math.floor(least / 86400000) + 1) * 86400000;
    const ticks = [];
    this.grid = "";
    for (let at = Math.ceil(this.from / step) * step; at <= this.until && ticks.length < 100; at += step) {
      const x = this.x(at);
      this.grid += `M${x},0V999`;
      if (x < 30 || x > this.width - 30) continue;
      const after = at - this.begin;
      ticks.push(draw("path", { class: "tick", d: `M${x},${top + 28}v5` }), draw("text", { class: "time", x, y: top + 12 }, clock(at, step < 1000)),
        draw("text", { class: "after", x, y: top + 25 }, step >= 43200000 ? utc(at).slice(0, 10) : `+${lasting(after)}`));
    }
    return ticks;
  }

  // -- a lane ------------------------------------------------------------------------------------------------

  paint(row) {
    if (!this.width) return;
    const { lane, svg } = row;
    const height = heightOf(lane);
    const errors = this.group.rows.filter((each) => each.severity === "error").slice(0, 40);
    const bands = errors.filter((each) => each.end >= this.from && each.start <= this.until)
      .map((each) => draw("rect", { class: "band", x: this.x(each.start), y: 0, width: Math.max(2, this.x(each.end) - this.x(each.start)), height }));
    const parts = lane.what === "partition" ? this.partition(lane, height) : this.member(lane);
    set(svg, this.width, height, [draw("path", { class: "grid", d: this.grid }), ...bands, ...parts]);
  }

  /** What is in view, in the order of begins; those too thin to be told apart together. */
  bunch(items, ends) {
    const visible = items.filter((item) => ends(item)[1] >= this.from && ends(item)[0] <= this.until).sort((a, b) => ends(a)[0] - ends(b)[0]);
    const bunches = [];
    let edge = 0;
    for (const item of visible) {
      const [left, right] = ends(item).map((ms) => this.x(ms));
      const thin = right - left < THINNEST;
      if (bunches.length && thin && left < edge) {
        bunches.at(-1).push(item);
        continue;
      }
      bunches.push([item]);
      edge = thin ? left + 3 * THINNEST : 0;
    }
    return bunches;
  }

  bar(start, end, top, height, cls, tip, labels = []) {
    const left = this.x(start);
    const width = Math.max(THINNEST, this.x(end) - left);
    const drawn = draw("g", {}, draw("title", {}, tip), draw("rect", { class: cls, x: left, y: top, width, height }));
    const label = labels.find((text) => text && width >= 6.4 * text.length + 8);
    if (label) drawn.append(draw("text", { class: "in", x: left + 4, y: top + height - 4 }, label));
    return drawn;
  }

  member(lane) {
    const { states } = this.group;
    const parts = this.bunch(lane.states, ([, start, end]) => [start, Math.max(start, end)]).map((bunch) => {
      const [state, start] = bunch[0];
      const end = Math.max(...bunch.map((each) => each[2]));
      if (bunch.length === 1) return this.bar(start, end, 14, BAR, `st ${states[state] || "moving0"}`, `${state}\n${span(start, end)}`, [state, state.slice(0, 3)]);
      const hurt = bunch.some(([each]) => (states[each] || "").startsWith("bad"));
      const names = [...new Set(bunch.map(([each]) => each))].slice(0, 8).join(", ");
      return this.bar(start, end, 14, BAR, `st busy${hurt ? " hurt" : ""}`, `${bunch.length} states within ${lasting(end - start)}: ${names}\n${clock(start)}`);
    });
    for (const bunch of this.bunch(lane.marks, ([at]) => [at, at])) {
      const shape = Object.keys(summary.glyphs).find((each) => bunch.some((mark) => mark[2] === each));
      const lines = bunch.slice(0, 6).map(([at, kind, , text]) => `${clock(at)} ${kind} ${text}`.trim());
      if (bunch.length > 6) lines.push(`and ${bunch.length - 6} more`);
      parts.push(draw("path", { class: `mk ${shape}`, transform: `translate(${this.x(bunch[0][0])},7)`, d: summary.glyphs[shape] }, draw("title", {}, lines.join("\n"))));
    }
    const rows = [["target", lane.target], ["current", lane.current]].filter(([, own]) => own.length);
    rows.forEach(([name, own], row) => parts.push(...this.assigned(name, own, 34 + row * ROW, lane.target)));
    return parts;
  }

  assigned(name, own, top, targets) {
    const what = name === "target" ? "coordinator: target" : "coordinator: assigned";
    return this.bunch(own, ([start, end]) => [start, Math.max(start, end)]).map((bunch) => {
      const [start, , shade, size, state, epoch, owned, given] = bunch[0];
      const end = Math.max(...bunch.map((each) => each[1]));
      if (bunch.length > 1) return this.bar(start, end, top, ROW - 3, "as busy", `${what}, ${bunch.length} times within ${lasting(end - start)}\n${clock(start)}`);
      const moved = targets.map(([at]) => at).filter((at) => at <= start);
      const lines = [[what, epoch, state].filter(Boolean).join(", "), `${many(size, "partition")} ${owned}`.trim(), given && `to give up: ${given}`, span(start, end),
        name === "current" && moved.length && `${lasting(start - Math.max(...moved))} after its target moved`].filter(Boolean);
      const says = owned || (shade === "unreleased" ? "waits for others" : "nothing");
      const short = (text) => (text.split("-[").length === 2 ? text.slice(text.indexOf("-[") + 1) : text);
      const texts = given ? [`${says}, gives up ${given}`, `gives up ${given}`, `gives up ${short(given)}`, "gives up"] : [says, short(says), String(size)];
      return this.bar(start, end, top, ROW - 3, `as ${name} ${shade}`, lines.join("\n"), [epoch && `${epoch}: ${texts[0]}`, ...texts]);
    });
  }

  partition(lane, height) {
    const unit = lane.label.startsWith("connector ");
    const parts = [];
    packOwners(lane).forEach((row, i) => parts.push(...this.bunch(row, ([, start, end]) => [start, Math.max(start, end)]).map((bunch) => this.owner(bunch, 4 + i * (BAR + 1)))));
    for (const [name, own, says] of [["gap", lane.gaps, unit ? "runs nowhere" : "no owner"], ["overlap", lane.overlaps, unit ? "runs twice" : "several owners"]])
      for (const bunch of this.bunch(own, ([start, end]) => [start, Math.max(start, end)])) {
        const start = bunch[0][0];
        const end = Math.max(...bunch.map((each) => each[1]));
        const top = name === "gap" ? 4 : 1;
        const times = bunch.length > 1 ? `, ${bunch.length} times` : "";
        parts.push(this.bar(start, end, top, height - 2 * top, name, `${says}\n${span(start, end)}${times}`, name === "gap" ? [`${says} ${lasting(end - start)}`] : []));
        const left = this.x(start);
        if (this.x(end) - left < 12) parts.push(draw("path", { class: name === "gap" ? "void" : "alarm", d: `M${left + 1},${height - 10}l6,10h-12z` }));
      }
    for (const [start, end] of lane.waits) if (end >= this.from && start <= this.until) parts.push(this.bar(start, end, height - 6, 4, "wait", `waits for a scheduled delay\n${span(start, end)}`));
    return parts;
  }

  owner(bunch, top) {
    const [who, start, , ended] = bunch[0];
    const end = Math.max(...bunch.map((each) => each[2]));
    if (bunch.length > 1) return this.bar(start, end, top, BAR, "ow busy", `owned ${bunch.length} times by ${many(new Set(bunch.map((each) => each[0])).size, "member")}\n${span(start, end)}`);
    const name = this.group.names[who - 1];
    const drawn = this.bar(start, end, top, BAR, `ow m${(who - 1) % 10}`, `${who} ${name}\n${span(start, end)}, ${words(ended)}`, [`${who} ${name}`, String(who)]);
    if (["lost", "dropped", "restarted", "log_ended", "closed"].includes(ended) && end > this.from && end < this.until) drawn.append(draw("path", { class: `end ${ended}`, d: `M${this.x(end)},${top - 2}v${BAR + 4}` }));
    return drawn;
  }
}

function set(svg, width, height, parts) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren(...parts);
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
