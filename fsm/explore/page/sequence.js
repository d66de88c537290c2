// The last steps of the path as a sequence diagram: a lane for each component, messages as arrows, states as tags.

const DRAWN = 60; // steps at most
const LANE = { least: 120, most: 420 };
const STEP = 30;
const TAG = 16;

function renderSequence() {
  const first = Math.max(0, walk.at - DRAWN);
  const all = walk.opening.components.map(({ name }) => name);
  const names = all.length > MANY ? all.filter((name) => isIn(name, first)) : all;
  const box = byId("sequence");
  const lane = Math.max(LANE.least, Math.min(LANE.most, (box.clientWidth - 24) / names.length));
  const x = (name) => lane * (names.indexOf(name) + 0.5);
  const width = lane * names.length;
  const drawn = [];
  let height = 0;
  for (let at = first + 1; at <= walk.at; at += 1) {
    const states = movedCells(at);
    const most = Math.max(0, ...states.map(([name]) => states.filter(([other]) => other === name).length));
    const tall = STEP + TAG * most;
    drawn.push(stepRow(at, { y: height, tall, width }, states, x));
    height += tall;
  }
  height += 16;
  const heads = names.map((name) =>
    draw("text", { class: "head", x: x(name), y: 18 }, fitting(brief(name), lane - 16)),
  );
  const lives = names.map((name) => draw("line", { class: "life", x1: x(name), x2: x(name), y1: 0, y2: height }));
  const label = `sequence of the last ${many(walk.at - first, "step")}`;
  put(
    box,
    first > 0 && make("p", { class: "soft" }, `${many(first, "step")} before these are not shown`),
    draw("svg", { class: "heads", viewBox: `0 0 ${width} 26`, width, height: 26, "aria-hidden": "true" }, heads),
    draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, lives, drawn),
  );
  box.scrollTop = box.scrollHeight;
}

/** Whether the steps that are drawn are about this component. */
function isIn(name, first) {
  const steps = walk.way.steps.slice(first, walk.at);
  return steps.some(
    (step) => [step.actor, step.sender, step.receiver].includes(name) || own(step.delta.components, name),
  );
}

function stepRow(at, row, states, x) {
  const step = walk.way.steps[at - 1];
  const words = ["seq", step.disturbance && "disturbs", at === walk.at && "current"].filter(Boolean);
  const y = row.y + STEP - 8;
  const seen = new Map();
  const tags = states.map(([name, state]) => {
    seen.set(name, (seen.get(name) || 0) + 1);
    return stateTag(x(name), y + TAG * seen.get(name) - 3, state);
  });
  return draw(
    "g",
    { class: words.join(" "), onclick: () => stand(at) },
    draw("rect", { class: "ground", x: 0, y: row.y, width: row.width, height: row.tall }),
    draw("text", { class: "no", x: 4, y: y }, number(at)),
    step.sender ? arrow(step, y, x) : act(step, y, x, row.width),
    tags,
    draw("title", {}, step.text),
  );
}

/** States of machines that a step changed, with whom they are of. */
function movedCells(at) {
  const before = walk.way.position(at - 1);
  return Object.entries(walk.way.steps[at - 1].delta.components || {}).flatMap(([name, { cells }]) => {
    const was = new Map(keyed(own(before.components, name)?.cells || []));
    return keyed(cells || [])
      .filter(([key, cell]) => was.get(key)?.state !== cell.state)
      .map(([, cell]) => [name, cell.of ? `${cell.of}: ${cell.state}` : cell.state]);
  });
}

function stateTag(x, y, text) {
  const wide = 6.2 * text.length + 10;
  return [
    draw("rect", { class: "state", x: x - wide / 2, y: y - 6, width: wide, height: 13, rx: 6 }),
    draw("text", { class: "state", x, y: y + 4 }, text),
  ];
}

function act(step, y, x, width) {
  const at = x(step.actor);
  if (at < 0) return draw("text", { class: "act", x: 30, y }, step.text);
  return [
    draw("circle", { class: "act", cx: at, cy: y - 4, r: 4 }),
    draw("text", { class: "act", x: at + 9, y }, fitting(step.action, width - at - 12)),
  ];
}

function arrow(step, y, x) {
  const [from, to] = [x(step.sender), x(step.receiver)];
  const [what] = step.action.split(" ");
  const arrives = !own(GONE, what);
  const end = arrives ? to : from + 0.6 * (to - from);
  const tip = to > from ? -7 : 7;
  const height = y;
  const cross = `M${end - 5},${height - 5}L${end + 5},${height + 5}M${end + 5},${height - 5}L${end - 5},${height + 5}`;
  const circle = `M${end - 4},${height}a4,4 0 1 0 8,0a4,4 0 1 0 -8,0`; // held up: it may still arrive
  const head = arrives
    ? `M${end + tip},${height - 4}L${end},${height}L${end + tip},${height + 4}`
    : what === "late" ? circle : cross;
  const late = arrives && step.action === "receives late";
  const label = arrives ? `${late ? "late: " : ""}${step.message}` : `${what}: ${step.message}`;
  return [
    draw("path", { class: `line ${arrives ? (late ? "late" : "") : what}`, d: `M${from},${height}H${end}` }),
    draw("path", { class: "tip", d: head }),
    draw("text", { class: "message", x: (from + to) / 2, y: height - 6 }, fitting(label, Math.abs(to - from) - 20)),
  ];
}

/** As much of a text as there is room for. */
function fitting(text, room) {
  const most = Math.max(4, Math.floor(room / 6.1));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
