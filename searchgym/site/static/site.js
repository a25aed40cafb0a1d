// Code blocks and wide tables scroll sideways; with this they can be reached by keyboard, too.
document$.subscribe(() => {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
});
