// The timeline of a group: findings and time above, a lane for each member and for partitions with one history.
// A lane is drawn when it comes into view. What is thinner than two pixels is drawn two pixels wide, and what would
// then lie on top of each other is bunched into one bar that says how much it stands for, until one zooms in.

const THINNEST = 2;
const LANES = 100;
const HEADINGS = {
  coordinator: "The coordinator's own words",
  member: "Members",
  unlogged: "Members without logs",
  partition: "Partitions",
};

class Timeline {
  /** Of the lanes that `shows` lets pass; `more` has further ones, or is null; `link` gives the address of a row. */
  constructor(group, { from, until, shows = null, more = null, link = null, moved = () => {} }) {
    Object.assign(this, { group, shows, more, link, moved, most: LANES, query: "" });
    this.begin = group.start;
    this.end = Math.max(group.end, group.start + 1);
    this.from = from ?? this.begin;
    this.until = until ?? this.end;
    this.seen = new Set();
    this.watch = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), {
      rootMargin: "300px",
    });
    this.build();
    this.size = new ResizeObserver(() => this.resize());
    this.size.observe(this.head);
  }

  build() {
    const button = (text, title, act) =>
      make("button", { type: "button", title, "aria-label": title, onclick: act }, text);
    this.told = make("output", { class: "window" });
    this.find = make("input", {
      type: "search",
      placeholder: "member or partition",
      "aria-label": "show lanes of",
      oninput: () => this.search(this.find.value.toLowerCase()),
    });
    this.tools = make(
      "div",
      { class: "tools" },
      button("+", "zoom in", () => this.zoom(0.5)),
      button("−", "zoom out", () => this.zoom(2)),
      button("◀", "earlier", () => this.pan(-0.4)),
      button("▶", "later", () => this.pan(0.4)),
      button("all", "show all of the time", () => this.move(this.begin, this.end)),
      this.shows ? null : this.find,
      this.told,
    );
    this.map = draw("svg", {
      class: "map",
      height: 16,
      role: "img",
      "aria-label": "all of the time; what is shown below is framed",
    });
    this.head = draw("svg", { class: "axis", role: "img", "aria-label": "time axis" });
    this.lanes = make("div", { class: "lanes" });
    this.element = make(
      "div",
      {
        class: "chart",
        tabindex: 0,
        role: "group",
        "aria-label": "timeline; plus and minus zoom, arrow keys move, 0 shows all",
        onkeydown: (event) => this.press(event),
      },
      this.tools,
      make(
        "div",
        { class: "top" },
        make("div", { class: "lab" }, "UTC"),
        make("div", { class: "plot" }, this.map, this.head),
      ),
      this.lanes,
    );
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
    const fits = (lane) =>
      (!this.shows || this.shows(lane)) &&
      (!this.query || `${lane.label} ${lane.note || ""}`.toLowerCase().includes(this.query));
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
    if (order.length > this.most)
      this.button(
        `show ${number(Math.min(LANES, order.length - this.most))} more of ${many(order.length, "lane")}`,
        () => {
          this.most += LANES;
          this.list();
        },
      );
    else if (this.more?.has())
      this.button("load more lanes", async () => {
        await this.more.load();
        this.most += LANES;
        this.list();
      });
    if (!order.length && this.query) this.lanes.append(make("p", { class: "soft" }, "No lane is called so."));
  }

  button(text, act) {
    const once = (event) => {
      event.target.disabled = true;
      act();
    };
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
    const rows = [
      lane.target?.length && ["target", "coordinator: target"],
      lane.current?.length && ["current", "coordinator: assigned"],
    ].filter(Boolean);
    const badge = lane.number ? make("i", { class: `no m${(lane.number - 1) % 10}` }, String(lane.number)) : null;
    const small = [
      lane.note && make("small", {}, lane.note),
      rows.map(([name, says]) => make("small", { class: `below ${name}` }, says)),
    ].flat();
    const row = make(
      "div",
      { class: "lane" },
      make(
        "div",
        { class: "lab", title: `${lane.label}\n${lane.note || ""}` },
        badge,
        make("b", {}, lane.label),
        small,
      ),
      make("div", { class: "plot" }, svg),
    );
    row.lane = lane;
    row.svg = svg;
    this.watch.observe(row);
    return row;
  }

  see({ target, isIntersecting }) {
    if (!isIntersecting) return this.seen.delete(target);
    this.seen.add(target);
    paintLane(this, target);
  }

  resize() {
    const width = Math.round(this.head.getBoundingClientRect().width);
    if (!width || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  /** Every lane, for paper. */
  paintAll() {
    for (const row of this.lanes.querySelectorAll(".lane")) paintLane(this, row);
  }

  redraw() {
    if (!this.width) return;
    paintHead(this);
    for (const row of this.seen) paintLane(this, row);
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
    const act = {
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2),
      0: () => this.move(this.begin, this.end),
      Home: () => this.move(this.begin, this.begin + this.until - this.from),
      End: () => this.move(this.end - this.until + this.from, this.end),
    }[event.key];
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
    const fingers = (this.fingers ??= new Map());
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

  /** What is in view, in the order of begins; those too thin to be told apart together. */
  bunch(items, ends) {
    const visible = items
      .filter((item) => ends(item)[1] >= this.from && ends(item)[0] <= this.until)
      .sort((a, b) => ends(a)[0] - ends(b)[0]);
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
}
