"use strict";
// Words, elements and colours that all parts of the page share. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const SEVERITIES = ["error", "warning", "info"];

/** An element. Attributes that begin with "on" are listeners; those that are null or false are left out. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return element;
}

const number = (value) => value.toLocaleString("en-US");
const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;
const words = (kind) => kind.replaceAll("_", " ");
const pad = (value, width = 2) => String(value).padStart(width, "0");

/** An instant with its date, in UTC. */
function utc(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? `${ms} ms since 1970` : at.toISOString().replace("T", " ").replace("Z", "");
}

/** The time of day in UTC. */
function clock(ms, exact = true) {
  const time = utc(ms).slice(11);
  return exact ? time : time.slice(0, 8);
}

/** A duration as it is read aloud. */
function lasting(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`.replace(".0 s", " s");
  for (const [unit, part, size, parts, most] of [
    ["min", "s", 60000, 1000, 60],
    ["h", "min", 3600000, 60000, 48],
  ]) {
    const rest = Math.floor((ms % size) / parts);
    if (ms < size * most) return `${Math.floor(ms / size)} ${unit}${rest ? ` ${rest} ${part}` : ""}`;
  }
  const hours = Math.floor((ms % 86400000) / 3600000);
  return `${number(Math.floor(ms / 86400000))} d${hours ? ` ${hours} h` : ""}`;
}

const span = (start, end) => `${clock(start)} to ${clock(end)}, ${lasting(Math.max(0, end - start))}`;

/** A mark in the colour of a severity. */
const badge = (severity, text = severity) => make("span", { class: `ref ${severity}` }, text);

/** Small charts of what happened over time: bars above one axis. */
function drawTrend(trend, onpick) {
  const charts = [
    ["rebalances", 1, number],
    ["partitions moved", 2, number],
    ["longest time without owner", 3, lasting],
  ];
  if (!trend || !trend.steps.length) return [];
  const first = trend.steps[0][0];
  const last = trend.steps.at(-1)[0] + trend.step;
  const width = 360;
  const height = 60;
  return charts
    .filter(([, column]) => trend.steps.some((step) => step[column]))
    .map(([title, column, tell]) => {
      const most = Math.max(...trend.steps.map((step) => step[column]));
      const bars = trend.steps
        .filter((step) => step[column])
        .map((step) => {
          const tall = Math.max(2, (height * step[column]) / most);
          const wide = Math.max(2, (width * trend.step) / (last - first) - 1);
          const bar = draw("rect", {
            class: "turn",
            x: (width * (step[0] - first)) / (last - first),
            y: height - tall,
            width: wide,
            height: tall,
            onclick: () => onpick(step[0], step[0] + trend.step),
          });
          bar.append(draw("title", {}, `${tell(step[column])}\n${utc(step[0])}, ${lasting(trend.step)}`));
          return bar;
        });
      const label = `${title} over time, at most ${tell(most)} in ${lasting(trend.step)}`;
      const axis = draw("path", { class: "tick", d: `M0,${height}H${width}` });
      return make(
        "figure",
        { class: "trend" },
        make("figcaption", {}, title, make("small", {}, `at most ${tell(most)} in ${lasting(trend.step)}`)),
        draw("svg", { viewBox: `0 0 ${width} ${height + 1}`, role: "img", "aria-label": label }, axis, bars),
        make(
          "small",
          { class: "ends" },
          make("span", {}, utc(first).slice(0, 19)),
          make("span", {}, utc(last).slice(0, 19)),
        ),
      );
    });
}
