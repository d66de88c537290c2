"use strict";
// Elements and texts for all parts of the page. Every text is made harmless to read in `show`, and becomes a text node.

const byId = (id) => document.getElementById(id);
const number = (value) => Number(value).toLocaleString("en-US");
const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;
const own = (object, key) => (object && Object.hasOwn(object, key) ? object[key] : undefined);

const UNSEEN = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu;
const LONGEST = 600;

/** A text as it may be shown: bounded, and what cannot be seen or turns the reading direction written out. */
function show(value) {
  const text = String(value ?? "");
  const cut = text.slice(0, LONGEST).replace(UNSEEN, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
  return text.length > LONGEST ? `${cut}… (${number(text.length)} characters)` : cut;
}

const SVG = "http://www.w3.org/2000/svg";
const SAID = ["title", "aria-label"];

/** An element. Attributes that begin with "on" are listeners; null and false ones are left out. */
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of a drawing. */
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Puts these into an element, in place of what was there. */
function put(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value != null && value !== false)
      element.setAttribute(name, value === true ? "" : SAID.includes(name) ? show(value) : value);
  }
  const there = children.flat(Infinity).filter((child) => child != null && child !== false && child !== "");
  element.append(...there.map((child) => (child instanceof Node ? child : show(child))));
  return element;
}

/** A time since the beginning, or of the day where it is one of a clock. */
function time(ms) {
  if (ms == null) return "";
  return ms < 1e11 ? `${(ms / 1000).toFixed(3)} s` : new Date(ms).toISOString().slice(11, 23);
}

/** Items of a list as they are now and were before: each is the same, new or gone; those that are gone come first. */
function compare(before, now, keyOf = (item) => item) {
  const left = new Map();
  for (const item of before || now) left.set(keyOf(item), (left.get(keyOf(item)) || 0) + 1);
  const found = now.map((item) => {
    const count = left.get(keyOf(item)) || 0;
    if (count) left.set(keyOf(item), count - 1);
    return { item, is: count ? "same" : "new" };
  });
  const gone = [];
  for (const item of before || []) {
    const count = left.get(keyOf(item)) || 0;
    if (!count) continue;
    left.set(keyOf(item), count - 1);
    gone.push({ item, is: "gone" });
  }
  return [...gone, ...found];
}
