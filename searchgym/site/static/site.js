// What the theme leaves out for people without a mouse or a screen.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const inner of document.querySelectorAll(".md-nav .md-nav")) inner.setAttribute("role", "group");
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;  // scrolled by keyboard, too
});
