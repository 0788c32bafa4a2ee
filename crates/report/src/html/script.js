"use strict";
// Makes headings buttons that sort, and saves the run as plain JSON. Without it the page is whole, sorted by rank.
const collator = new Intl.Collator("en", { numeric: true });

function keyOf(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.v;
  if (value === undefined) return cell.textContent.trim();
  return value === "" ? null : Number(value);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(one, other);
}

function sort(table, head) {
  const heads = [...table.tHead.rows[0].cells];
  const rising = head.getAttribute("aria-sort") !== "ascending";
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const column = heads.indexOf(head);
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: keyOf(row, column) }));
  rows.sort((one, other) => {
    // What has no figure stays last either way.
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    return rising ? compare(one.key, other.key) : compare(other.key, one.key);
  });
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table.sort")) {
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}

// A link to a folded part unfolds it.
function unfold() {
  const part = location.hash && document.getElementById(location.hash.slice(1));
  if (part && part.tagName === "DETAILS") {
    part.open = true;
    part.scrollIntoView();
  }
}
addEventListener("hashchange", unfold);
unfold();

const link = document.getElementById("raw");
if (link && typeof DecompressionStream !== "undefined") {
  link.addEventListener("click", async (event) => {
    if (link.href.startsWith("blob:")) return;
    event.preventDefault();
    const text = atob(link.getAttribute("href").split(",", 2)[1]);
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const run = await new Response(plain).blob();
    link.href = URL.createObjectURL(new Blob([run], { type: "application/json" }));
    link.download = link.download.replace(/\.gz$/, "");
    link.click();
  });
}
