// The live page of a training: fetched anew every two seconds; curves answer to the pointer.
"use strict";
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const told = document.getElementById("polled");
  let following = true, timer = 0, last = Date.now();

  const poll = async () => {
    clearTimeout(timer);
    if (following && !document.hidden && !live.querySelector(":hover > svg, select:focus")) {
      try {
        const answer = await fetch(location.href);
        if (!answer.ok) throw new Error(`${answer.status}`);
        const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
        if (now.innerHTML !== live.dataset.now) {
          const at = document.activeElement?.closest?.("#live a")?.getAttribute("href");
          live.dataset.now = now.innerHTML;
          live.replaceChildren(...now.childNodes);
          if (at) [...live.querySelectorAll("a")].find((a) => a.getAttribute("href") === at)?.focus();
        }
        last = Date.now();
        told.textContent = "Updates every 2 s. Press s to pause.";
      } catch {
        const ago = Math.round((Date.now() - last) / 1000);
        told.textContent = `No answer for ${ago} s: the server has ended. searchgym watch shows the run again.`;
      }
    }
    timer = setTimeout(poll, Number(live.dataset.every));
  };
  window.searchgym.key("s", () => {
    following = !following;
    if (following) poll();
    else told.textContent = "Paused. Press s to go on.";
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  live.addEventListener("change", (event) => {
    if (!event.target.matches("#f-smooth")) return;
    event.target.blur();
    history.replaceState(null, "", event.target.value ? `?smooth=${event.target.value}` : "/live");
    poll();
  });

  // --- the values under the pointer ---------------------------------------------------------------
  const value = (figure) => figure.querySelector("strong");
  const leave = (figure) => {
    if (figure.dataset.latest === undefined) return;
    value(figure).textContent = figure.dataset.latest;
    figure.querySelector(".cursor").setAttribute("d", "");
    delete figure.dataset.latest;
  };
  live.addEventListener("pointermove", (event) => {
    const figure = event.target.closest(".curve");
    for (const other of live.querySelectorAll(".curve[data-latest]")) if (other !== figure) leave(other);
    const svg = event.target.closest(".curve svg");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * 320;
    let x = null, place = at;
    const values = [...svg.querySelectorAll("[data-points]")].map((line) => {
      const points = line.dataset.points.split(";").map((point) => point.split(","));
      const near = points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
      [place, x] = x === null ? near : [place, x];
      return `${line.dataset.name} ${near[2]}`.trim();
    });
    figure.dataset.latest ??= value(figure).textContent;
    value(figure).textContent = `at ${x}: ${values.join(", ")}`;
    svg.querySelector(".cursor").setAttribute("d", `M${place} 8 V128`);
  });
  live.addEventListener("pointerleave", () => live.querySelectorAll(".curve").forEach(leave));
  poll();
})();
