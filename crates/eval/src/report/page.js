// A click on a heading sorts by its column: numbers from great to small first, text the other way.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.addEventListener("click", () => {
    const body = table.tBodies[0];
    const key = (row) => row.cells[column].textContent.trim();
    const number = (text) => parseFloat(text.replace(/^<\s*/, ""));
    const numeric = [...body.rows].every((row) => key(row) === "" || !Number.isNaN(number(key(row))));
    const was = heading.getAttribute("aria-sort");
    const descending = was ? was === "ascending" : numeric;
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = numeric ? number(x) - number(y) : x.localeCompare(y);
      return descending ? -order : order;
    });
    body.append(...rows);
  }));
}
