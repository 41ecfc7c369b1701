// Starts the page: theme, tables, then, after the first paint, the charts that zoom.
const root = document.documentElement;
const given = JSON.parse(document.getElementById("data").textContent);
text_of.use(given.units);

const preferred = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  restyle();
});
preferred.addEventListener("change", () => restyle());

const tables = new Map();
for (const part of given.parts) {
  if (part.kind === "table") tables.set(part.name, new Table(part, document.getElementById(`table-${part.name}`)));
}
for (const part of given.parts) {
  if (part.kind === "reasons" && tables.has(part.table)) tables.get(part.table).reasons = new Reasons(part, tables.get(part.table));
}
// A click on an element with table rows (a box of the graph, a point, an interval) shows their details.
function picked(event) {
  const one = event.target.closest?.("[data-rows]");
  if (!one || (event.type === "keydown" && event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  const rows = one.dataset.rows.split(" ").map(Number);
  tables.get(one.dataset.table)?.tell(rows, rows.length > 1 ? one.dataset.name : undefined, one.closest("figure, .bars"));
}
document.addEventListener("click", picked);
document.addEventListener("keydown", picked);
window.tilesim = { tables, charts: drawn, said: text_of.said };
root.dataset.tables = "ready";

const store = document.getElementById("library");
if (store) {
  requestAnimationFrame(() => setTimeout(() => {
    const script = element("script");
    script.textContent = store.textContent;
    document.head.append(script);
    drawAll(given.parts.filter((part) => part.kind in MAKERS), tables);
  }, 30));
}
