// The live page of a training: its changing part is fetched anew every two seconds.
"use strict";
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const told = document.getElementById("polled");
  const every = Number(live.dataset.every);
  let following = true, timer = 0, last = Date.now();

  const poll = async () => {
    clearTimeout(timer);
    if (following && !document.hidden) {
      try {
        const answer = await fetch("/live?part=1");
        if (!answer.ok) throw new Error(`${answer.status}`);
        const text = await answer.text();
        const at = document.activeElement?.closest?.("#live a")?.getAttribute("href");
        const page = new DOMParser().parseFromString(text, "text/html");
        if (page.body.innerHTML.trim() !== live.dataset.now) {
          live.dataset.now = page.body.innerHTML.trim();
          live.replaceChildren(...page.body.childNodes);
          if (at) [...live.querySelectorAll("a")].find((a) => a.getAttribute("href") === at)?.focus();
        }
        last = Date.now();
        told.textContent = "Follows the run every two seconds; s stops that.";
      } catch {
        const ago = Math.round((Date.now() - last) / 1000);
        told.textContent = `No answer for ${ago} s: the server has ended. searchgym watch shows the run again.`;
      }
    }
    timer = setTimeout(poll, every);
  };
  window.searchgym.key("s", () => {
    following = !following;
    if (following) poll();
    else told.textContent = "Stopped; s goes on.";
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  poll();
})();
