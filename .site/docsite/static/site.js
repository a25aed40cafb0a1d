// What the theme leaves out for people without a mouse or a screen: names of landmarks, and a way to
// scroll wide tables and code by keyboard. The theme adds buttons later, hence the observer; what is
// wide depends on the window, which may be narrowed, or turned.
const mend = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-nav .md-nav, .md-code__nav").forEach((nav, i) => {
    const about = document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim();
    if (nav.hasAttribute("aria-label")) return;
    nav.setAttribute("aria-label", `${about || "Code block"}, part ${i + 1}`);
    nav.removeAttribute("aria-labelledby");
  });
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();

// Tables: a click on a heading sorts by it, numbers as numbers; a field above filters the rows.
for (const table of document.querySelectorAll(".sg-sortable table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending" && column > 0;
      const sign = down || head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      const key = (row) => row.cells[column].textContent.trim();
      const order = (a, b) => (parseFloat(key(a)) - parseFloat(key(b))) || key(a).localeCompare(key(b));
      const rows = [...table.tBodies[0].rows];
      const [known, empty] = [rows.filter(key), rows.filter((row) => !key(row))];
      table.tBodies[0].append(...known.sort((a, b) => sign * order(a, b)), ...empty);
    };
    head.addEventListener("click", (event) => { if (!event.target.closest("a")) sort(); });
    head.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === head) sort(); });
  });
}
for (const field of document.querySelectorAll(".sg-filter"))
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of document.getElementById(field.dataset.table).querySelectorAll("tbody tr"))
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
