"use strict";
// Tables can be sorted by a click on a heading; on paper, what is folded is open. The page is complete without this.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!table.tHead || body.rows.length < 3) continue;
  const key = (row, column) => {
    const shown = row.cells[column].textContent.trim();
    const value = parseFloat(shown.replace(/,/g, ""));
    return [Number.isNaN(value) ? null : value, shown];
  };
  for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = heading.classList.contains("n");
      const first = numeric ? "descending" : "ascending", second = numeric ? "ascending" : "descending";
      const now = heading.getAttribute("aria-sort") === first ? second : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", now);
      const sign = now === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([[a, x]], [[b, y]]) => {
        if (!numeric) return sign * x.localeCompare(y, "en", {numeric: true});
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (a - b);
      });
      body.append(...rows.map(([, row]) => row));
    });
  }
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.screen)")) part.open = true;
});
