// The search page: asks /retrieve and /access and writes what they answer as text, never as HTML.
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const [form, field, k, found, said, signIn] =
    ["ask", "query", "k", "found", "said", "sign-in"].map(get);
  let token = sessionStorage.getItem("token") || "";
  let latest = 0;

  const ask = async (path, body) => {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const told = { headers, method: body ? "POST" : "GET" };
    if (body) {
      headers["content-type"] = "application/json";
      told.body = JSON.stringify(body);
    }
    const answer = await fetch(path, told);
    const value = await answer.json();
    if (answer.status === 401) {
      signIn.hidden = false;
      get("token").focus();
    }
    if (!answer.ok) throw new Error(value.detail || `the server answered ${answer.status}`);
    return value;
  };

  const write = (hit) => {
    const item = get("hit").content.cloneNode(true);
    const [title, meta, text, open, whole] =
      ["h2", ".meta", ".text", ".open", ".document"].map((s) => item.querySelector(s));
    title.textContent = hit.document.title || hit.document.id;
    meta.textContent = [hit.document.url, `id ${hit.document.id}`, `score ${hit.score.toFixed(2)}`]
      .filter(Boolean).join(" · ");
    text.textContent = hit.document.text;
    open.hidden = !hit.document.url;
    open.setAttribute("aria-expanded", "false");
    open.addEventListener("click", async () => {
      if (whole.hidden && !whole.textContent) {
        try {
          const [page] = (await ask("/search-r1/access", { urls: [hit.document.url] })).result;
          whole.textContent = page ?? "There is no such document.";
        } catch (error) {
          said.textContent = error.message;
          return;
        }
      }
      whole.hidden = !whole.hidden;
      whole.tabIndex = 0;
      open.setAttribute("aria-expanded", String(!whole.hidden));
      open.textContent = whole.hidden ? "Show the whole document" : "Hide the document";
    });
    found.append(item);
  };

  const search = async () => {
    const query = field.value.trim();
    if (!query) return;
    const mine = ++latest;
    const started = performance.now();
    said.textContent = "Searching …";
    const wanted = { queries: [query], topk: Number(k.value) || 10, return_scores: true };
    try {
      const answer = await ask("/search-r1/retrieve", wanted);
      if (mine !== latest) return;
      const hits = answer.result[0];
      found.replaceChildren();
      hits.forEach(write);
      const count = hits.length === 1 ? "1 passage" : `${hits.length} passages`;
      const took = Math.round(performance.now() - started);
      said.textContent = hits.length ? `${count} in ${took} ms.` : "Nothing was found.";
      const address = new URLSearchParams({ q: query, k: k.value });
      history.replaceState(null, "", `?${address}`);
    } catch (error) {
      if (mine !== latest) return;
      found.replaceChildren();
      said.textContent = error.message;
    }
  };

  const describe = async () => {
    try {
      const served = await ask("/healthz");
      if (served.corpus) {
        const count = served.passages.toLocaleString("en");
        get("served").textContent = `${served.corpus} · ${count} passages`;
      } else {
        signIn.hidden = false;
      }
    } catch (error) {
      said.textContent = error.message;
    }
  };

  form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  signIn.addEventListener("submit", async (event) => {
    event.preventDefault();
    token = get("token").value;
    sessionStorage.setItem("token", token);
    signIn.hidden = true;
    await describe();
    await search();
  });
  window.searchgym.key("/", () => field.focus());
  const asked = new URLSearchParams(location.search);
  if (asked.get("k")) k.value = asked.get("k");
  describe().then(() => { if (asked.get("q")) { field.value = asked.get("q"); search(); } });
})();
