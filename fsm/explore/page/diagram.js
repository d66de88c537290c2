// The diagram of a table, with the state of now lit and the hop just taken.

const drawings = new Map(); // by table: the parsed drawing, of which each place has a copy
const WINDOW = { width: 350, height: 205 }; // what of a drawing a card shows, in its points
const WIDEST = { width: 560, height: 330 }; // where it takes so much to show the state before, too
const MARGIN = 24;
const numbers = (text) => (text.match(/-?\d+(?:\.\d+)?/g) || []).map(Number);

/** A number between two others, or in their middle where there is nothing between them. */
const inside = (value, from, to) => (to < from ? (from + to) / 2 : Math.max(from, Math.min(to, value)));

/** A drawing of a table; null where there is none. */
function drawingOf(table) {
  if (!drawings.has(table)) {
    const text = own(walk.opening.tables, table);
    const parsed = text ? new DOMParser().parseFromString(text, "image/svg+xml").documentElement : null;
    drawings.set(table, parsed?.localName === "svg" ? parsed : null);
  }
  const found = drawings.get(table);
  return found && new Drawing(document.importNode(found, true));
}

class Drawing {
  constructor(element) {
    this.element = element;
    element.setAttribute("aria-hidden", "true");
    this.whole = numbers(element.getAttribute("viewBox"));
    this.states = new Map();
    for (const each of element.querySelectorAll("[data-state]")) this.states.set(each.dataset.state, each);
    this.hops = [...element.querySelectorAll("[data-hops]")].map((each) => [each, JSON.parse(each.dataset.hops)]);
  }

  /** Lights states, and the hops that led there: each of `cells` has `state`, `was` and whom it is of. */
  light(cells) {
    const tags = new Map();
    for (const { state, of } of cells) if (of) tags.set(state, [...(tags.get(state) || []), of]);
    const words = (name) => [
      cells.some((cell) => cell.state === name) && "lit",
      cells.some((cell) => cell.was === name && cell.state !== name) && "was",
    ];
    for (const each of this.element.querySelectorAll(".tag")) each.remove();
    for (const [name, shape] of this.states) {
      shape.classList.remove("lit", "was");
      shape.classList.add(...words(name).filter(Boolean));
      if (tags.has(name)) shape.append(this.tag(shape, tags.get(name).join(", ")));
    }
    for (const [shape, pairs] of this.hops)
      shape.classList.toggle(
        "taken",
        cells.some(
          ({ was, state }) => was && was !== state && pairs.some(([from, to]) => from === was && to === state),
        ),
      );
  }

  tag(shape, text) {
    const box = this.boxOf(shape);
    const graph = this.moved([0], [0]);
    return draw("text", { class: "tag", x: box.left - graph.left, y: box.top - graph.top - 4 }, text);
  }

  /** Where a state stands, in the points of the drawing. */
  boxOf(shape) {
    const outline = shape.querySelector("path, polygon, ellipse");
    const found = numbers(outline?.getAttribute("d") || outline?.getAttribute("points") || "");
    const [xs, ys] = [0, 1].map((odd) => found.filter((_, i) => i % 2 === odd));
    return this.moved(xs, ys);
  }

  /** Where a label stands, about: a text has no outline. */
  boxOfText(shape) {
    const texts = [...shape.querySelectorAll("text")];
    const at = (each, name) => Number(each.getAttribute(name));
    const xs = texts.flatMap((each) => [at(each, "x"), at(each, "x") + 6 * each.textContent.length]);
    return this.moved(
      xs,
      texts.flatMap((each) => [at(each, "y") - 10, at(each, "y")]),
    );
  }

  /** A box around points of the graph, which the drawing has somewhere else. */
  moved(xs, ys) {
    const [dx, dy] = numbers(this.element.querySelector("g[transform]")?.getAttribute("transform") || "0 0").slice(-2);
    return {
      left: Math.min(...xs) + dx,
      right: Math.max(...xs) + dx,
      top: Math.min(...ys) + dy,
      bottom: Math.max(...ys) + dy,
    };
  }

  /** Shows only what is around a state, and where there is room the hop that led there, with its label. */
  look(state, was) {
    const shape = this.states.get(state);
    if (!shape) return this.element.setAttribute("viewBox", this.whole.join(" "));
    const boxes = [this.boxOf(shape)];
    if (was !== state && this.states.has(was)) {
      boxes.push(this.boxOf(this.states.get(was)));
      const labels = this.hops.filter(([each]) => each.matches(".node.taken")).map(([each]) => this.boxOfText(each));
      boxes.push(...labels);
    }
    const unions = [boxes, boxes.slice(0, 2), boxes.slice(0, 1)].map(around);
    const { left, right, top, bottom } = unions.find(fits) || unions.at(-1);
    const [x0, y0, all, tall] = this.whole;
    const width = Math.max(WINDOW.width, right - left + MARGIN);
    const height = Math.max(WINDOW.height, bottom - top + MARGIN);
    const x = inside((left + right - width) / 2, x0, x0 + all - width);
    const y = inside((top + bottom - height) / 2, y0, y0 + tall - height);
    this.element.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }
}

const fits = ({ left, right, top, bottom }) => right - left < WIDEST.width && bottom - top < WIDEST.height;
const around = (boxes) => ({
  left: Math.min(...boxes.map(({ left }) => left)),
  right: Math.max(...boxes.map(({ right }) => right)),
  top: Math.min(...boxes.map(({ top }) => top)),
  bottom: Math.max(...boxes.map(({ bottom }) => bottom)),
});

// -- the whole diagram, as a view of its own -----------------------------------------------------------------

const board = { table: "", drawing: null };

/** Cells of all components that are of one table, with what they were one step before. */
function cellsOf(table, before, now) {
  return walk.opening.components.flatMap(({ name }) => {
    const cells = own(now.components, name)?.cells || [];
    const was = new Map(keyed(own(before?.components, name)?.cells || []));
    return keyed(cells)
      .filter(([, cell]) => cell.table === table)
      .map(([key, cell]) => ({
        state: cell.state,
        was: was.get(key)?.state,
        of: cell.of ? `${name}: ${cell.of}` : name,
      }));
  });
}

/** Cells with a key each, by which one is found again in another position. */
function keyed(cells) {
  const seen = new Map();
  return cells.map((cell) => {
    const name = `${cell.table} ${cell.of || ""}`;
    seen.set(name, (seen.get(name) || 0) + 1);
    return [`${name} ${seen.get(name)}`, cell];
  });
}

const tables = () => Object.keys(walk.opening.tables || {});

function renderBoard(before, now) {
  const table = tables().includes(walk.chosen.table) ? walk.chosen.table : tables()[0];
  const box = byId("board");
  if (!table)
    return box.replaceChildren(
      make("p", { class: "soft" }, "There is no diagram of these tables: their drawings need the dot program."),
    );
  if (board.table !== table) {
    board.table = table;
    board.drawing = drawingOf(table);
    box.replaceChildren(board.drawing?.element || "");
    board.drawing?.element.classList.add("whole");
  }
  for (const tab of byId("tables").children) tab.setAttribute("aria-pressed", String(tab.dataset.table === table));
  const cells = cellsOf(table, before, now);
  board.drawing?.light(cells);
  const moved = cells.find((cell) => cell.was && cell.was !== cell.state) || cells[0];
  const shape = moved && board.drawing?.states.get(moved.state);
  if (shape && box.scrollHeight > box.clientHeight + 4) {
    const place = shape.getBoundingClientRect();
    const frame = box.getBoundingClientRect();
    box.scrollTop += place.top - frame.top - (frame.height - place.height) / 2;
    box.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
  }
}

function renderTables() {
  byId("tables").replaceChildren(
    ...tables().map((table) =>
      make("button", { type: "button", "data-table": table, onclick: () => choose({ view: "machine", table }) }, table),
    ),
  );
}

/** Changes what else the address says. */
function choose(changes) {
  walk.chosen = { ...walk.chosen, ...changes };
  writeAddress("push");
  render();
}
