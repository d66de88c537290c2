// Components side by side, with their machines, queues and connections; what the last step changed stands out.

const MANY = 6; // of more components than these only those that are opened, or that the step is about, are shown whole
const WIDE = matchMedia("(min-width: 1000px)");
const cards = new Map();
const lanes = new Map();
const opened = new Set();
const RIGHT = ["coordinator", "topics"];

const wireKey = ({ sender, receiver }) => `${sender}>${receiver}`;

/** Which components stand on the right: those with that role, else those that only the ones on the left talk to. */
function onTheRight(components, wires) {
  const named = components.filter(({ role }) => RIGHT.includes(role));
  if (named.length && named.length < components.length) return named;
  const isRight = new Map();
  const place = (name, right) => {
    if (isRight.has(name)) return isRight.get(name) === right;
    isRight.set(name, right);
    const others = wires.flatMap(({ sender, receiver }) =>
      sender === name ? receiver : receiver === name ? sender : [],
    );
    return others.every((other) => place(other, !right));
  };
  const areParted = components.every(({ name }) => isRight.has(name) || place(name, false));
  return areParted ? components.filter(({ name }) => isRight.get(name)) : [];
}

function buildStage() {
  const { components, wires } = walk.opening;
  const right = onTheRight(components, wires).map(({ name }) => name);
  const left = components.filter(({ name }) => !right.includes(name));
  const pairs = new Map(); // wires between the same two, together; the one to the right first
  for (const wire of wires.toSorted((a, b) => right.includes(b.receiver) - right.includes(a.receiver))) {
    const ends = [wire.sender, wire.receiver];
    const key = JSON.stringify(ends.toSorted());
    pairs.set(key, [...(pairs.get(key) || []), wire]);
  }
  const boxOf = (some) => some.length > 0 && make("section", { class: "wires" }, some.map((pair) => connection(pair, right)));
  const crosses = (name) =>
    [...pairs.values()].filter(
      ([{ sender, receiver }]) =>
        (sender === name && right.includes(receiver)) || (receiver === name && right.includes(sender)),
    );
  const others = [...pairs.values()].filter(
    ([{ sender, receiver }]) => right.includes(sender) === right.includes(receiver),
  );
  const hubs = make("div", { class: "hubs" }, components.filter(({ name }) => right.includes(name)).map(cardOf));
  const rows = left.map((component) => [
    cardOf(component),
    right.length > 0 && (boxOf(crosses(component.name)) || make("span")),
  ]);
  const sides = make("div", { class: right.length ? "sides" : "peers" }, rows, right.length > 0 && hubs);
  put(byId("stage"), sides, boxOf(others));
  byId("stage")
    .querySelector(".hubs")
    ?.style.setProperty("grid-row", `1 / span ${Math.max(1, left.length)}`);
}

// -- a component ---------------------------------------------------------------------------------------------

function cardOf({ name, role }) {
  const parts = {
    cells: make("div", { class: "cells" }),
    window: make("button", { type: "button", class: "window", hidden: true }),
    states: make("p", { class: "states", hidden: true }),
    said: make("p", { class: "said" }),
    preview: make("p", { class: "preview", hidden: true }),
    fields: make("dl", { class: "fields" }),
    queues: make("div", { class: "queues" }),
  };
  const body = make("div", { class: "body" }, parts.window, parts.states, parts.fields, parts.queues);
  const toggle = make("button", { type: "button", class: "toggle", "aria-expanded": "true" }, "details");
  const element = make(
    "article",
    { class: "card", "data-name": name, "aria-label": name },
    make("h3", {}, make("bdi", {}, name), make("small", {}, role), toggle),
    parts.cells,
    make("div", { class: "saying" }, parts.said, parts.preview),
    body,
  );
  const card = { name, element, parts, body, toggle, machine: "", drawing: null, watched: "" };
  toggle.hidden = walk.opening.components.length <= MANY;
  toggle.addEventListener("click", () => {
    if (!opened.delete(name)) opened.add(name);
    render();
  });
  parts.window.addEventListener("click", () => choose({ view: "machine", table: card.machine }));
  cards.set(name, card);
  return element;
}

const NOBODY = { said: "", cells: [], fields: [], queues: [] };

function showCard(card, before, now, concerned) {
  const was = before && (own(before.components, card.name) || NOBODY);
  const is = own(now.components, card.name) || NOBODY;
  const compact = walk.opening.components.length > MANY && !opened.has(card.name) && !concerned;
  const key = JSON.stringify([was, is, concerned, compact]);
  if (card.key === key) return;
  card.key = key;
  card.element.classList.toggle("changed", Boolean(was) && JSON.stringify(was) !== JSON.stringify(is));
  card.element.classList.toggle("acts", concerned);
  card.body.hidden = compact;
  card.toggle.setAttribute("aria-expanded", String(!compact));
  card.parts.said.textContent = is.cells?.length === 1 && is.cells[0].state === is.said ? "" : show(is.said);
  card.parts.said.title = show(is.said);
  card.parts.said.classList.toggle("new", Boolean(was) && was.said !== is.said);
  const watched = showCells(card, was && was.cells, is.cells || []);
  showMachine(card, compact ? null : watched);
  if (compact) return;
  showFields(card.parts.fields, was && was.fields, is.fields || []);
  card.parts.queues.replaceChildren(...(is.queues || []).map((queue) => queueOf(queue, was && (was.queues || []))));
}

/** Draws the states of its machines; gives the one to look at: that moved, or that was looked at before. */
function showCells(card, before, now) {
  const was = new Map(keyed(before || now));
  const cells = keyed(now).map(([key, cell]) => ({ ...cell, key, was: was.get(key)?.state }));
  const moved = (cell) => cell.was !== cell.state;
  const first = cells.find(moved) || cells.find(({ key }) => key === card.watched) || cells[0];
  card.watched = first?.key || "";
  card.parts.cells.replaceChildren(
    ...cells.map((cell) =>
      make(
        "span",
        { class: `cell ${moved(cell) ? "new" : ""}`, title: cell.table },
        cell.of && make("small", {}, cell.of),
        moved(cell) && cell.was && make("del", {}, cell.was),
        make("b", {}, cell.state),
      ),
    ),
  );
  return first;
}

/** Draws a machine around its state; the drawing is there only while it is seen. */
function showMachine(card, cell) {
  const { window, states } = card.parts;
  const table = cell ? cell.table : "";
  if (card.machine !== table) {
    card.machine = table;
    card.drawing = cell ? drawingOf(table) : null;
    put(window, card.drawing?.element);
  }
  window.hidden = !card.drawing;
  states.hidden = !cell || Boolean(card.drawing);
  if (!states.hidden) showStates(states, cell);
  if (window.hidden) return;
  const label = `${table}${cell.of ? ` of ${cell.of}` : ""}: ${cell.state}`;
  window.setAttribute("aria-label", show(`${label}; show the whole diagram`));
  window.title = show(label);
  card.drawing.light([{ state: cell.state, was: cell.was }]);
  card.drawing.look(cell.state, cell.was);
}

/** The states of a table that has no drawing, with that of now. */
function showStates(box, { table, state, was }) {
  const names = own(walk.opening.states, table) || [state];
  const wordOf = (name) => (name === state ? "lit" : name === was ? "was" : null);
  box.replaceChildren(...names.map((name) => make("span", { class: wordOf(name) }, name)));
}

function showFields(box, before, now) {
  const was = new Map((before || now).map(([name, value]) => [name, String(value)]));
  box.replaceChildren(
    ...now.map(([name, value]) => {
      const old = was.get(name);
      const changed = old !== String(value);
      return make(
        "div",
        { class: changed ? "new" : null },
        make("dt", {}, name),
        make(
          "dd",
          {},
          changed && old !== undefined && make("del", {}, old || "nothing"),
          make("bdi", {}, String(value) || "nothing"),
        ),
      );
    }),
  );
}

function queueOf({ name, items }, before) {
  const was = before && (before.find((each) => each.name === name)?.items || []);
  const found = compare(was || null, items);
  return make(
    "section",
    { class: "queue" },
    make("h4", {}, name, make("small", {}, items.length ? number(items.length) : "empty")),
    found.length > 0 &&
      make(
        "ol",
        {},
        found.map(({ item, is }) => make("li", { class: is }, item)),
      ),
  );
}

// -- connections ---------------------------------------------------------------------------------------------

function connection(wires, right) {
  const [{ sender, receiver }] = wires;
  return make(
    "section",
    { class: "connection", "aria-label": `connection of ${sender} and ${receiver}` },
    wires.map((wire) => {
      const crosses = right.includes(wire.sender) !== right.includes(wire.receiver);
      const rightwards = crosses ? right.includes(wire.receiver) : wire === wires[0];
      const box = make("ol", { class: "pills" });
      const lane = make(
        "div",
        { class: `lane ${rightwards ? "there" : "back"}` },
        make("h4", {}, make("bdi", {}, wire.sender), " → ", make("bdi", {}, wire.receiver)),
        box,
      );
      lanes.set(wireKey(wire), { lane, box });
      return lane;
    }),
  );
}

const GONE = { lost: "lost", late: "given up" }; // what became of a message that did not arrive

function showLane(key, { lane, box }, before, now, step) {
  const messages = own(now.wires, key) || [];
  const was = before && (own(before.wires, key) || []);
  const found = compare(was || null, messages, ({ text, late }) => `${late} ${text}`);
  const about = step && step.sender && wireKey(step) === key;
  lane.classList.toggle("busy", messages.length > 0);
  lane.classList.toggle(
    "changed",
    found.some(({ is }) => is !== "same"),
  );
  box.replaceChildren(
    ...found.map(({ item, is }) => {
      const how = is === "gone" && about ? own(GONE, step.action.split(" ")[0]) || "arrived" : "";
      return make(
        "li",
        { class: `${is} ${item.late ? "late" : ""} ${how === "arrived" ? "arrived" : ""}` },
        item.late && make("b", {}, "late"),
        how && make("b", {}, how),
        make("bdi", {}, item.text),
      );
    }),
  );
}

// -- all of it -----------------------------------------------------------------------------------------------

function renderStage(before, now, step) {
  const about = step ? [step.actor, step.sender, step.receiver, ...Object.keys(step.delta.components || {})] : [];
  for (const card of cards.values()) showCard(card, before, now, about.includes(card.name));
  for (const [key, lane] of lanes) showLane(key, lane, before, now, step);
  preview(null);
  const changed = byId("stage").querySelector(".card.changed");
  if (WIDE.matches) changed?.scrollIntoView({ block: "nearest" }); // else the page itself would move
}

/** Says in each card what an option would change there; null takes that back. */
function preview(option) {
  for (const { name, element, parts } of cards.values()) {
    const told = own(option?.changes, name);
    parts.preview.hidden = !told;
    parts.preview.textContent = told ? show(told) : "";
    element.classList.toggle("would", Boolean(told));
  }
  for (const [key, { lane }] of lanes)
    lane.classList.toggle("would", Boolean(option?.sender) && wireKey(option) === key);
}
