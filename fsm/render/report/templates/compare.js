"use strict";
// Leaves the rows of groups that are called so, or in which something of that kind has changed.
const find = document.getElementById("find");
const rows = [...document.querySelectorAll(".changes tbody tr")];
find.hidden = rows.length < 2;
find.querySelector("input").addEventListener("input", (event) => {
  const text = event.target.value.toLowerCase();
  rows.forEach((row) => {
    row.hidden = !row.textContent.toLowerCase().includes(text);
  });
  find.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} groups`;
});
