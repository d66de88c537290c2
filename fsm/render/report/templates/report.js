"use strict";
(() => {
  const form = document.querySelector(".filter");
  const all = [...document.querySelectorAll(".finding")];
  const open = (id) => {
    for (let e = document.getElementById(id); e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  };
  const follow = () => open(decodeURIComponent(location.hash.slice(1)));
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((e) => (e.open = true)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link) open((link.getAttribute("href") || "").slice(1));
  });
  follow();
  if (!form) return;
  for (const field of ["kind", "group"])
    for (const value of [...new Set(all.map((e) => e.dataset[field]))].sort())
      form.elements[field].append(new Option(field === "kind" ? value.replaceAll("_", " ") : value || "(none)", value || "\u0000"));
  const chosen = (field) => form.elements[field].value;
  const apply = () => {
    const words = chosen("text").toLowerCase();
    let shown = 0;
    for (const e of all) {
      const fits = ["severity", "kind", "group"].every((f) => !chosen(f) || (e.dataset[f] || "\u0000") === chosen(f));
      e.hidden = !(fits && (!words || e.textContent.toLowerCase().includes(words)));
      shown += e.hidden ? 0 : 1;
    }
    form.querySelector("output").textContent = `${shown} of ${all.length} shown`;
    for (const card of document.querySelectorAll(".card")) card.classList.toggle("on", card.dataset.kind === chosen("kind"));
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  const fold = (state) => all.forEach((e) => e.hidden || (e.open = state));
  form.elements.unfold.addEventListener("click", () => fold(true));
  form.elements.fold.addEventListener("click", () => fold(false));
  for (const card of document.querySelectorAll(".card"))
    card.addEventListener("click", () => {
      form.elements.kind.value = chosen("kind") === card.dataset.kind ? "" : card.dataset.kind;
      apply();
    });
  form.hidden = false;
  apply();
})();
