// Filters that answer at once, and keys. Every page works without this file.
"use strict";
(() => {
  const { key } = window.searchgym;
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const seen = (element) => element.getClientRects().length > 0;

  for (const element of all(".needs-script")) element.hidden = false;
  $("#show-help")?.addEventListener("click", () => $("#help").showModal());

  // --- filters ----------------------------------------------------------------------------------
  const form = $("form.filters[action]");
  let asked = null;

  // Fetch an address and put its results in place of these; the form keeps its own state.
  const show = async (address, remember) => {
    asked?.abort();
    const mine = (asked = new AbortController());
    const results = $("#results");
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { signal: mine.signal });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      results.replaceWith(document.adoptNode($("#results", page)));
      const buttons = $(".field.buttons", page);
      if (buttons && form && address.startsWith(form.getAttribute("action"))) {
        $(".field.buttons").replaceWith(document.adoptNode(buttons));
      }
      if (remember) history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") location.assign(address); // let the browser say what is wrong
    }
  };

  if (form) {
    const address = () => {
      const given = new URLSearchParams();
      for (const [name, value] of new FormData(form)) if (value) given.append(name, value);
      const query = given.toString();
      return form.getAttribute("action") + (query ? `?${query}` : "");
    };
    let later = 0;
    form.addEventListener("input", (event) => {
      clearTimeout(later);
      if (event.target.matches("select")) show(address(), true);
      else later = setTimeout(() => show(address(), true), 80);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(later);
      show(address(), true);
    });
  }

  // --- the list in a file -----------------------------------------------------------------------
  const sieve = $("#sieve");
  if (sieve) {
    const rows = all(".episodes tbody tr").map((row) => [row, row.textContent.toLowerCase()]);
    const sift = () => {
      const words = $("#f-q").value.toLowerCase().split(/\s+/).filter(Boolean);
      let kept = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        kept += !row.hidden;
      }
      $("#count").textContent = kept.toLocaleString("en");
    };
    sieve.addEventListener("input", sift);
    sieve.addEventListener("submit", (event) => event.preventDefault());
  }

  // --- keys -------------------------------------------------------------------------------------
  const open = () => all(".one").find(seen); // the episode that a file shows
  const move = (by) => {
    const within = open() ?? document;
    const rows = all(open() || !$(".episodes, .rollouts") ? ".turn, .turn-number" : ".row-link", within).filter(seen);
    const places = rows.filter((r) => !r.matches(".turn") || !$(".turn-number"));
    if (!places.length) return false;
    const now = places.findIndex((r) => r === document.activeElement || r.contains(document.activeElement));
    const next = places[now < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(Math.max(now + by, 0), places.length - 1)];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const follow = (selector) => () => {
    const link = all(selector).find(seen);
    if (!link) return false;
    link.click();
  };
  key("j", () => move(1));
  key("k", () => move(-1));
  key("/", () => {
    const field = $("#f-q");
    if (!field || !seen(field)) return false;
    field.focus();
    field.select();
  });
  // --- places that a search found ---------------------------------------------------------------
  const found = (by) => () => {
    const marks = all("mark.found").filter((mark) => seen(mark) || mark.closest("details"));
    if (!marks.length) return false;
    const now = marks.findIndex((mark) => mark.matches(".at"));
    const next = marks[(now + by + marks.length + (now < 0 && by < 0)) % marks.length];
    marks.forEach((mark) => mark.classList.toggle("at", mark === next));
    for (let details = next.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "center" });
  };
  key("f", found(1));
  key("F", found(-1));
  key("n", follow("#after, .after, a[rel=next]"));
  key("p", follow("#before, .before, a[rel=prev]"));
  key("u", follow("#back, .back"));
  key("x", follow("#clear"));
  key("c", follow("a.side"));
  for (const number of "1234") key(number, () => {
    const tab = all(".tabs a")[number - 1];
    if (!tab) return false;
    tab.click();
  });

  // --- tokens -----------------------------------------------------------------------------------
  const told = $("#token-told");
  if (told) {
    const tell = (token) => {
      all(".token.at").forEach((other) => other.classList.remove("at"));
      token.classList.add("at");
      told.textContent = `“${token.textContent}”: ${token.title}`;
    };
    for (const row of all(".tokens")) {
      row.addEventListener("pointerover", (event) => {
        const token = event.target.closest(".token");
        if (token) tell(token);
      });
    }
    const step = (by) => () => {
      const tokens = all(".tokens .token");
      if (!tokens.length) return false;
      const now = tokens.findIndex((token) => token.matches(".at"));
      const next = tokens[Math.min(Math.max(now + by, 0), tokens.length - 1)];
      tell(next);
      next.scrollIntoView({ block: "nearest" });
    };
    key("ArrowRight", step(1));
    key("ArrowLeft", step(-1));
  }
})();
