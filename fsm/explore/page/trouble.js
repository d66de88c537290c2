// What could go wrong from here: the checker searches from the state of now, and what it finds can be walked.

const form = byId("check");

function buildCheck() {
  byId("trouble").hidden = !(walk.opening.can_branch && isModel());
  put(
    byId("disturb"),
    kindBoxes(walk.opening.kinds || [], false, () => {}),
  );
}

async function look() {
  const path = pathTo(walk.at);
  const chosen = [...byId("disturb").querySelectorAll("input:checked")].map((each) => each.value);
  const from = walk.at ? `step ${number(walk.at)}` : "the start";
  const box = byId("verdict");
  const button = byId("look");
  box.replaceChildren(make("p", {}, `searching from ${from} …`));
  button.disabled = true;
  try {
    const told = await source.check({
      path,
      disturb: chosen,
      disturbances: chosen.length ? Number(form.elements.disturbances.value) : 0,
      max_states: Number(form.elements.max_states.value),
    });
    put(box, verdict(told, path, from, chosen));
  } catch (problem) {
    box.replaceChildren(make("p", { class: "bad" }, problem.message));
  } finally {
    button.disabled = false;
    box.scrollIntoView({ block: "nearest" });
  }
}

function verdict(told, path, from, chosen) {
  const searched = `${many(told.states, "state")} from ${from}${chosen.length ? `, with ${chosen.join(", ")}` : ""}`;
  const found = told.violations || [];
  const head = found.length
    ? make(
        "p",
        { class: "bad" },
        `${many(found.length, "property is", "properties are")} violated on some path; ${searched}`,
      )
    : make(
        "p",
        { class: told.stopped ? "" : "fine" },
        `${told.stopped ? "No violation found, but the search is incomplete" : "Every property holds"}; ${searched}`,
      );
  const stopped =
    told.stopped && make("p", { class: "soft" }, `stopped at ${told.stopped}: states beyond were not explored`);
  const never =
    told.never?.length > 0 && make("p", { class: "soft" }, `never possible: ${told.never.join(", ")}`);
  return [head, stopped, never, found.map((one) => violation(one, path))];
}

function violation({ property, meaning, path, steps, doomed_at: doomed }, from) {
  const begun = from ? from.split(".").length : 0;
  return make(
    "details",
    { class: "violation" },
    make("summary", {}, make("b", {}, property), " ", make("small", {}, many(steps.length, "step"))),
    meaning && make("p", { class: "soft" }, meaning),
    make("button", { type: "button", class: "walk", onclick: () => walkTo(path, begun) }, "walk this path"),
    make(
      "button",
      { type: "button", class: "walk", onclick: () => walkTo(path, begun + steps.length) },
      "go to its end",
    ),
    make(
      "ol",
      {},
      steps.map((step, i) =>
        make(
          "li",
          {},
          make("button", { type: "button", class: "plain", onclick: () => walkTo(path, begun + i + 1) }, sayOf(step)),
          kindOf(step),
          begun + i + 1 === doomed &&
            make("small", { class: "bad" }, "from here on, the goal cannot be reached without a disturbance"),
        ),
      ),
    ),
  );
}

/** Takes a path that was found, and stands on it. */
async function walkTo(path, at) {
  try {
    if (await takePath(readPath(path))) stand(at);
  } catch (problem) {
    complain(problem);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});
