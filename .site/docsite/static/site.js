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
