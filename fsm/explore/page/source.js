// Where documents come from: this file itself, or the server that gave the page.

const PIECE = 500;
const LONG = 2000; // characters of a path that an address has room for
const ENDED = "fsm explore has ended: start it again, and reload this page";

/** A file holds its opening and every step, and nothing can be asked of it. */
function embedded({ opening, steps }) {
  return {
    opening: async () => opening,
    loaded: async () => [],
    async *steps() {
      yield steps;
    },
  };
}

function served() {
  async function ask(address, sent) {
    const key = document.querySelector("meta[name=fsm-key]").content;
    const headers = { "Content-Type": "application/json", ...(key && { "X-Fsm-Key": key }) };
    let answer;
    try {
      answer = await fetch(address, sent && { method: "POST", headers, body: JSON.stringify(sent) });
    } catch {
      throw new Error(ENDED);
    }
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(told.error || `the server refused that: ${answer.status}`);
    return told;
  }
  return {
    opening: () => ask("/opening.json"),
    loaded: async () => (await ask("/loaded.json")).path,
    async *steps(length) {
      for (let from = 0; from < length; from += PIECE)
        yield (await ask(`/steps.json?from=${from}&count=${PIECE}`)).steps;
    },
    at: (path, known) =>
      path.length < LONG ? ask(`/at.json?path=${path}&known=${known}`) : ask("/at.json", { path, known }),
    check: (question) => ask("/check.json", question),
  };
}

const held = JSON.parse(byId("data").textContent);
const source = held ? embedded(held) : served();
