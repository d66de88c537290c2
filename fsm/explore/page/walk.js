// The walk: steps from the start, where in them the reader stands, and the address that says so.

const EVERY = 200;
const NOTHING = { components: {}, wires: {}, broken: [], disturbances: 0 };

/** Steps one after the other, and the position after each. */
class Way {
  constructor(start = NOTHING) {
    this.steps = [];
    this.marks = [start]; // positions, one for every so many steps
  }

  add(steps) {
    for (const step of steps) this.steps.push(step);
  }

  /** Forgets what comes after so many steps. */
  cut(length) {
    this.steps.length = Math.min(this.steps.length, length);
    this.marks.length = Math.min(this.marks.length, Math.floor(this.steps.length / EVERY) + 1);
  }

  /** The position after so many steps. */
  position(at) {
    let number = Math.min(this.marks.length - 1, Math.floor(at / EVERY));
    let found = this.marks[number];
    for (let done = number * EVERY; done < at;) {
      found = after(found, this.steps[done].delta);
      done += 1;
      if (done % EVERY === 0 && this.marks.length === done / EVERY) this.marks.push(found);
    }
    return found;
  }
}

/** A delta has whole entries: what is not in it is as it was. */
function after(position, delta) {
  return {
    components: { ...position.components, ...delta.components },
    wires: { ...position.wires, ...delta.wires },
    broken: delta.broken || [],
    disturbances: delta.disturbances ?? position.disturbances,
  };
}

const walk = {
  opening: null,
  way: new Way(),
  path: [], // of a model: which option each step was
  loaded: [], // the path that was given
  at: 0,
  chosen: {}, // what else the address says: `table`, `view`
  asked: 0, // counts requests, so that only the last one moves the reader
  options: new Map(), // by path
};

const readPath = (text) => text.split(".").filter(Boolean).map(Number);
const pathTo = (at) => walk.path.slice(0, at).join(".");
const isModel = () => walk.opening.kind === "model";
const stepCount = () => walk.way.steps.length;
const commonStart = (one, other) => {
  const differs = one.findIndex((each, i) => each !== other[i]);
  return differs < 0 ? one.length : differs;
};

// -- the address ---------------------------------------------------------------------------------------------

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  const at = said.get("at");
  return {
    path: said.get("path"),
    at: at == null ? null : Number(at),
    table: said.get("table"),
    view: said.get("view"),
  };
}

function address() {
  const { at, chosen } = walk;
  const path = walk.path.join(".");
  const said = new URLSearchParams();
  if (isModel() && walk.opening.can_branch && path !== walk.loaded.join(".")) said.set("path", path);
  if (at || said.has("path")) said.set("at", at);
  for (const each of ["table", "view"]) if (chosen[each]) said.set(each, chosen[each]);
  return `#${said}`;
}

let waiting = 0;

/** Writes the address: a step by hand is an entry in the browser's history; what comes many times a second waits. */
function writeAddress(how) {
  clearTimeout(waiting);
  const next = address();
  if (next === (location.hash || "#")) return;
  if (how === "push") history.pushState(null, "", next);
  else waiting = setTimeout(() => history.replaceState(null, "", address()), 400);
}

// -- going ---------------------------------------------------------------------------------------------------

/** Stands after so many steps. */
function stand(at, how = "push") {
  walk.asked += 1;
  walk.at = Math.max(0, Math.min(stepCount(), at));
  writeAddress(how);
  render();
}

/** Takes the path there, keeping the steps that both have. Raises what the server says where there is no such path. */
async function takePath(path) {
  const asked = (walk.asked += 1);
  const known = commonStart(walk.path, path);
  if (known < path.length) {
    const told = await source.at(path.join("."), known);
    if (asked !== walk.asked) return false;
    remember(path.join("."), told.options);
    cut(known);
    walk.way.add(told.steps);
  } else cut(path.length);
  walk.path = [...path];
  return true;
}

function cut(at) {
  walk.way.cut(at);
  walk.path.length = Math.min(walk.path.length, at);
}

/** Takes an option where the reader stands; what came after it on this path is forgotten. */
async function take(option, how = "push") {
  const { at } = walk;
  if (walk.path[at] !== option.index && !(await takePath([...walk.path.slice(0, at), option.index]))) return;
  stand(at + 1, how);
}

/** What can be done after so many steps; null where nothing can be asked. */
async function optionsAt(at) {
  if (!walk.opening.can_branch) return null;
  const path = pathTo(at);
  if (!walk.options.has(path)) remember(path, (await source.at(path, at)).options);
  return walk.options.get(path);
}

function remember(path, options) {
  if (walk.options.size > 300) walk.options.clear();
  walk.options.set(path, options);
}

/** Goes where the address says. */
async function follow() {
  const said = readAddress();
  walk.chosen = { table: said.table, view: said.view };
  const branches = isModel() && walk.opening.can_branch;
  const path = branches && said.path != null ? readPath(said.path) : walk.loaded;
  if (!path.every(Number.isInteger)) throw new Error("the address names no path");
  if (branches && path.join(".") !== walk.path.join(".") && !(await takePath(path))) return;
  const at = said.at ?? (said.path == null ? 0 : stepCount());
  if (!Number.isInteger(at) || at < 0) throw new Error("the address names no step");
  stand(at, "replace");
}
