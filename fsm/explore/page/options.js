// What can happen next: a button for each step, by who takes it; kinds of disturbance can be left out.

const hidden = new Set(); // kinds that are left out
let offered = []; // options in the order of their buttons, for the keys 1 to 9

const nextOf = (at) => (walk.path.length > at ? walk.path[at] : null);
const isDisturbance = ({ disturbance }) => Boolean(disturbance);
const whose = ({ actor, sender, receiver }) => actor || `${sender} → ${receiver}`;

/** Draws the buttons, once it is known what they are. */
async function renderOptions() {
  const { at } = walk;
  const path = pathTo(at);
  if (!walk.opening.can_branch) return;
  if (!walk.options.has(path)) {
    byId("options").classList.add("waiting");
    await new Promise((done) => setTimeout(done, 60)); // who runs through the path asks for nothing
    if (path !== pathTo(walk.at)) return;
  }
  try {
    const options = await optionsAt(at);
    if (path === pathTo(walk.at)) showOptions(options);
  } catch (problem) {
    complain(problem);
  }
}

function showOptions(options) {
  const shown = options.filter(({ disturbance }) => !hidden.has(disturbance));
  const groups = new Map(walk.opening.components.map(({ name }) => [name, []]));
  for (const option of shown) groups.set(whose(option), [...(groups.get(whose(option)) || []), option]);
  const byCost = (some) => some.sort((a, b) => isDisturbance(a) - isDisturbance(b));
  for (const group of groups.values()) byCost(group);
  offered = byCost([...groups.values()].flat());
  const focused = byId("options").contains(document.activeElement) ? document.activeElement.dataset.text : "";
  const box = byId("options");
  box.classList.remove("waiting");
  const section = ([name, group]) => {
    const [costs, free] = [group.filter(isDisturbance), group.filter((option) => !isDisturbance(option))];
    const chips = costs.length > 0 && [
      make("small", {}, many(costs.length, "disturbance")),
      make("div", { class: "chips", role: "group", "aria-label": `disturbances of ${name}` }, costs.map(optionButton)),
    ];
    const head = make("h3", {}, make("bdi", {}, name));
    return (
      group.length > 0 &&
      make("section", { class: "actor", role: "group", "aria-label": name }, head, free.map(optionButton), chips)
    );
  };
  put(box, [...groups].map(section));
  const left = options.length - shown.length;
  byId("offered").textContent = offered.length
    ? `${many(offered.length, "step")}${left ? `, ${number(left)} left out` : ""}`
    : left
      ? `${many(left, "disturbance")} left out`
      : "no step is possible any more";
  if (focused)
    (
      [...box.querySelectorAll("button")].find((each) => each.dataset.text === focused) || box.querySelector("button")
    )?.focus();
}

function optionButton(option) {
  const place = offered.indexOf(option) + 1;
  const name = whose(option);
  const whole = sayOf(option);
  const text = whole.startsWith(`${name} `) ? whole.slice(name.length + 1) : whole;
  const changes = Object.entries(option.changes || {}).map(([who, said]) => `${who} would be: ${said}`);
  const isNext = nextOf(walk.at) === option.index;
  const kind = option.disturbance;
  return make(
    "button",
    {
      type: "button",
      class: `option ${kind ? "disturbs" : ""} ${isNext ? "next" : ""}`,
      "data-text": option.text,
      "data-kind": kind || null,
      title: [kind && `disturbance: ${kind}`, ...changes].filter(Boolean).join("\n") || null,
      onclick: () => take(option).catch(complain),
      onpointerenter: () => preview(option),
      onpointerleave: () => preview(null),
      onfocus: (event) => event.target.matches(":focus-visible") && preview(option),
      onblur: () => preview(null),
    },
    place < 10 && make("kbd", { "aria-hidden": "true" }, String(place)),
    make("span", { class: "say" }, text),
    isNext && make("span", { class: "mark" }, "on this path"),
    changes.length > 0 && make("span", { class: "what", "aria-hidden": "true" }, changes.join("\n")),
  );
}

/** The kinds of disturbance, to be left out or not. */
function buildKinds() {
  const kinds = walk.opening.can_branch ? walk.opening.kinds || [] : [];
  const box = byId("kinds").lastElementChild;
  byId("kinds").hidden = !kinds.length;
  put(
    box,
    kindBoxes(kinds, true, () => {
      hidden.clear();
      for (const each of box.querySelectorAll("input:not(:checked)")) hidden.add(each.value);
      renderOptions();
    }),
  );
}

/** A box to check for each kind, and buttons for all and none of them. */
function kindBoxes(kinds, checked, changed) {
  const boxes = kinds.map((value) => make("input", { type: "checkbox", value, checked, onchange: changed }));
  const all = (on) => () => {
    boxes.forEach((box) => (box.checked = on));
    changed();
  };
  return [
    make("button", { type: "button", onclick: all(true) }, "all"),
    make("button", { type: "button", onclick: all(false) }, "none"),
    boxes.map((box) => make("label", { class: "check" }, box, box.value)),
  ];
}
