// Charts that answer to the pointer, pictures to save, tables that sort. The page is whole without.
"use strict";
(() => {
  const options = {
    renderer: "svg", ast: true, actions: false, defaultStyle: false,
    logLevel: 1, // a panel without a seed's line is no news
    tooltip: (_, event, item, values) => told(event, values),
  };
  const box = document.createElement("div");
  box.id = "told";
  box.hidden = true;
  document.body.append(box);
  const told = (event, values) => {
    box.hidden = values == null || typeof values !== "object";
    if (box.hidden) return;
    box.replaceChildren(...Object.entries(values).map(([name, value]) => {
      const line = document.createElement("div");
      line.textContent = name.trim() ? `${name}: ${value}` : value;
      return line;
    }));
    const left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
    const top = event.clientY + 14 + box.offsetHeight > innerHeight
      ? event.clientY - box.offsetHeight - 10 : event.clientY + 14;
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  };
  const worn = (text) => {
    const style = getComputedStyle(document.documentElement);
    const probe = document.createElement("span");
    document.body.append(probe);
    const found = text.replace(/var\(--([a-z0-9-]+)\)/g, (whole, name) => {
      if (!style.getPropertyValue(`--${name}`)) return whole;
      probe.style.color = `var(--${name})`; // resolves light-dark()
      return getComputedStyle(probe).color;
    });
    probe.remove();
    return found;
  };
  const save = (address, name) => {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
  };

  // The picture that the figure's width shows, and its chart; the other waits until it is shown.
  const shown = (figure) => {
    const places = [...figure.querySelectorAll(".picture")];
    return places.find((place) => place.offsetParent !== null) ?? places[0];
  };
  const text = (place) => place.nextElementSibling.textContent;
  const enliven = (figure) => {
    const place = shown(figure);
    if (place.dataset.live) return;
    place.dataset.live = "soon";
    const live = document.createElement("div");
    vegaEmbed(live, JSON.parse(text(place)), options).then(() => {
      live.querySelector("svg")?.setAttribute("aria-hidden", "true");
      place.replaceChildren(live);
      place.dataset.live = figure.dataset.live = "yes";
    });
  };
  const figures = [...document.querySelectorAll("figure.chart")];
  figures.forEach(enliven);
  addEventListener("resize", () => figures.forEach(enliven));
  for (const figure of figures) {
    for (const button of figure.querySelectorAll("[data-save]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const spec = JSON.parse(
          worn(text(shown(figure)).replaceAll('"transparent"', '"var(--chart-paper)"')));
        spec.title = { text: figure.querySelector("h3").textContent, fontSize: 15, anchor: "start",
          frame: "bounds", offset: 14, color: worn("var(--chart-ink)") };
        const { view } = await vegaEmbed(document.createElement("div"), spec, options);
        const form = button.dataset.save;
        save(await view.toImageURL(form, 2), `${figure.dataset.name}.${form}`);
        view.finalize();
      });
    }
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending" || (
          !head.hasAttribute("aria-sort") && !head.classList.contains("number"));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => row.cells[place].dataset.sort;
        const number = head.classList.contains("number");
        const order = (a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === "" || y === "") return (x === "") - (y === ""); // what is missing stays last
          const found = number ? x - y : x.localeCompare(y, undefined, { numeric: true });
          return up ? found : -found;
        };
        body.append(...[...body.rows].sort(order));
      });
    });
  }
})();
