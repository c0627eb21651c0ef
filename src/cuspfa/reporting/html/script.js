"use strict";
/* Draws the figures and tables of a report inside `root` from its data. What is not inside is left
   out; numbers that are null are not known yet. Ends with `signal`, if there is one. */
const showReport = (root, data, signal) => {
  const byId = (id) => root.querySelector(`#${id}`);
  const p = data.names.length;

  // --- numbers ---

  const whole = (text) => {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    return new Int16Array(bytes.buffer);
  };
  const unpack = (text) => text && Float64Array.from(whole(text), (one) => one / data.unit);
  const axes = new Map(data.axes.map((one) => [one.key, {
    ...one, k: one.shares.length, mean: unpack(one.mean), lower: unpack(one.lower),
    upper: unpack(one.upper), sign: unpack(one.sign), order: Array.from(whole(one.order)),
  }]));
  const common = data.communality && data.communality.map(unpack);
  let now = axes.get(data.axes[0].key);

  const two = (value) => {
    const text = value.toFixed(2);
    return (text === "-0.00" ? "0.00" : text).replace("-", "−");
  };
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const span = (low, high, show) => `${show(low)} – ${show(high)}`;
  const at = (row, h) => row * now.k + h;
  const unsure = (i) => Boolean(now.lower) && now.lower[i] <= 0 && now.upper[i] >= 0;

  // --- elements ---

  const make = (tag, settings = {}, ...inside) => {
    const svg = ["svg", "path", "line", "circle", "rect", "text", "title"].includes(tag);
    const one = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(settings)) one.setAttribute(name, value);
    one.append(...inside);
    return one;
  };
  const factor = (h) => (now.factors ? now.factors[h] : `factor ${h + 1}`);
  const short = (h) => (now.factors ? now.factors[h] : String(h + 1));
  const described = (j) => (data.labels && data.labels[j] ? `${data.names[j]}: ${data.labels[j]}` : data.names[j]);
  const breadth = (text) => Array.from(text).reduce((sum, one) => sum + (one.codePointAt(0) < 0x1100 ? 1 : 1.8), 0);
  const beginning = (letters, most) => {
    let taken = 0;
    const end = letters.findIndex((one) => { taken += breadth(one); return taken > most; });
    return end < 0 ? letters : letters.slice(0, end);
  };
  const cut = (name, most) => {
    const letters = Array.from(name);
    if (breadth(name) <= most) return name;
    const head = beginning(letters, (most - 1) / 2);
    const tail = beginning(letters.reverse(), most - 1 - breadth(head.join(""))).reverse();
    return `${head.join("")}…${tail.join("")}`;
  };
  const longest = Math.max(1, ...data.names.map(breadth));
  const worded = Boolean(data.labels && data.labels.some((label) => label));
  const beside = (j) => (worded && data.labels[j] ? `${data.names[j]} ${data.labels[j]}` : data.names[j]);

  // --- what a cell says ---

  const tip = document.getElementById("tip");
  const say = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(x + 14, window.innerWidth - box.width - 8);
    const above = y + 18 + box.height > window.innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above ? y - box.height - 10 : y + 18}px`;
  };
  const hush = () => { tip.hidden = true; };
  const cellWords = (row, h) => {
    const i = at(row, h);
    if (!now.lower) return `${described(row)}\n${factor(h)}: ${two(now.mean[i])}`;
    const rate = now.sign[i] < 0.0005 ? "< 0.001" : now.sign[i].toFixed(3);
    return `${described(row)}\n${factor(h)}: ${two(now.mean[i])}  (95 %: ${span(now.lower[i], now.upper[i], two)})\n`
      + `chance that the sign is wrong ${rate}`;
  };

  // --- the map ---

  const map = byId("map");
  let grid = null;
  let cursor = [0, 0];

  const drawMap = () => {
    const width = map.clientWidth;
    if (!width) return;
    const named = p <= 120;
    const left = named ? Math.min(longest * 7.4 + 14, width * (width < 500 ? 0.34 : 0.28), 230) : 8;
    const row = p <= 60 ? 22 : named ? 16 : Math.max(1.2, Math.min(8, 900 / p));
    const room = worded && named && width >= 640 ? 0.36 * width : 0;  // for the wording, at the right
    const cell = Math.min((width - left - 4 - room) / now.k, named ? 110 : 120);
    const top = 22;
    const height = top + row * p + 4;
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const every = Math.ceil((now.factors ? 30 : 18) / cell);
    for (let h = 0; h < now.k; h += every) {
      svg.append(make("text", { class: "middle", x: left + cell * (h + 0.5), y: 14 }, make("title", {}, factor(h)), cut(short(h), Math.max(2, Math.floor(cell * every / 7.4)))));
    }
    const shapes = new Map();
    now.order.forEach((variable, place) => {
      for (let h = 0; h < now.k; h += 1) {
        const level = Math.round(20 * Math.max(-1, Math.min(1, now.mean[at(variable, h)])));
        if (level === 0) continue;
        const said = `M${(left + h * cell).toFixed(2)} ${(top + place * row).toFixed(2)}h${cell.toFixed(2)}v${row.toFixed(2)}h${(-cell).toFixed(2)}z`;
        if (!shapes.has(level)) shapes.set(level, []);
        shapes.get(level).push(said);
      }
    });
    for (const [level, said] of shapes) {
      svg.append(make("path", { class: level > 0 ? "plus" : "minus", "fill-opacity": Math.abs(level) / 20, d: said.join("") }));
    }
    const write = named && cell >= 32 && row >= 16;
    let previous = -1;
    now.order.forEach((variable, place) => {
      const y = top + place * row;
      let best = 0;
      for (let h = 1; h < now.k; h += 1) {
        if (Math.abs(now.mean[at(variable, h)]) > Math.abs(now.mean[at(variable, best)])) best = h;
      }
      if (place && best !== previous) svg.append(make("line", { class: "edge", x1: left, x2: left + cell * now.k, y1: y, y2: y }));
      previous = best;
      if (named) {
        const shown = cut(data.names[variable], Math.max(3, Math.floor((left - 10) / 7.4)));
        svg.append(make("text", { class: "label end", x: left - 7, y: y + row / 2 + 4 }, make("title", {}, described(variable)), shown));
        if (room && data.labels[variable]) {
          const from = left + cell * now.k + 12;
          svg.append(make("text", { class: "wording", x: from, y: y + row / 2 + 4 }, make("title", {}, described(variable)), cut(data.labels[variable], Math.floor((width - from) / 6.9))));
        }
      }
      if (write) {
        for (let h = 0; h < now.k; h += 1) {
          const value = now.mean[at(variable, h)];
          const kind = Math.abs(value) > 0.62 ? "cell strong" : unsure(at(variable, h)) ? "cell weak" : "cell";
          svg.append(make("text", { class: kind, x: left + cell * (h + 0.5), y: y + row / 2 + 4 }, two(value)));
        }
      }
    });
    svg.append(make("rect", { class: "frame", x: left, y: top, width: cell * now.k, height: row * p }));
    const frame = make("rect", { class: "cellframe", width: cell, height: Math.max(row, 3), visibility: "hidden" });
    svg.append(frame);
    map.replaceChildren(svg);
    grid = { left, top, cell, row, frame };
  };
  const pointAt = (place, h, x, y) => {
    cursor = [place, h];
    grid.frame.setAttribute("x", grid.left + h * grid.cell);
    grid.frame.setAttribute("y", grid.top + place * grid.row);
    grid.frame.setAttribute("visibility", "visible");
    say(cellWords(now.order[place], h), x, y);
  };
  const leaveMap = () => {
    hush();
    if (grid) grid.frame.setAttribute("visibility", "hidden");
  };
  const byKeys = () => {
    const box = map.getBoundingClientRect();
    const y = box.top + grid.top + (cursor[0] + 1) * grid.row;
    if (y < 80 || y > window.innerHeight - 90) window.scrollBy(0, y - window.innerHeight / 2);
    const place = map.getBoundingClientRect();
    pointAt(cursor[0], cursor[1], place.left + grid.left + cursor[1] * grid.cell, place.top + grid.top + (cursor[0] + 1) * grid.row);
  };
  if (map) {
    map.addEventListener("pointermove", (event) => {
      const box = map.getBoundingClientRect();
      const h = Math.floor((event.clientX - box.left - grid.left) / grid.cell);
      const place = Math.floor((event.clientY - box.top - grid.top) / grid.row);
      if (h < 0 || h >= now.k || place < 0 || place >= p) leaveMap();
      else pointAt(place, h, event.clientX, event.clientY);
    }, { signal });
    map.addEventListener("pointerleave", leaveMap, { signal });
    map.addEventListener("blur", leaveMap, { signal });
    map.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Escape") leaveMap();
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [down, right] = steps[event.key];
      if (grid.frame.getAttribute("visibility") === "visible") {
        cursor = [Math.max(0, Math.min(p - 1, cursor[0] + down)), Math.max(0, Math.min(now.k - 1, cursor[1] + right))];
      } else {
        cursor = [0, 0];
      }
      byKeys();
    }, { signal });
  }

  // --- forest ---

  const forest = byId("forest");
  const drawForest = () => {
    const most = now.k > 12 ? 6 : 10;
    const panels = [];
    for (let h = 0; h < now.k; h += 1) {
      const rows = Array.from({ length: p }, (_, j) => j)
        .sort((a, b) => Math.abs(now.mean[at(b, h)]) - Math.abs(now.mean[at(a, h)])).slice(0, most)
        .sort((a, b) => now.mean[at(b, h)] - now.mean[at(a, h)]);
      const share = now.shares[h];
      const width = 340;
      const left = Math.min(14 + 7.4 * Math.max(...rows.map((j) => breadth(beside(j)))), worded ? 178 : 150);
      const height = 22 * rows.length + 26;
      const reach = Math.max(1, ...rows.map((j) => Math.max(Math.abs(now.lower[at(j, h)]), Math.abs(now.upper[at(j, h)]))));
      const x = (value) => left + (value + reach) / (2 * reach) * (width - left - 10);
      const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `Loadings of ${factor(h)}` });
      for (const mark of [-1, -0.5, 0, 0.5, 1]) {
        svg.append(make("line", { class: mark ? "grid" : "zero", x1: x(mark), x2: x(mark), y1: 2, y2: height - 20 }));
        svg.append(make("text", { class: "middle", x: x(mark), y: height - 5 }, String(mark).replace("-", "−")));
      }
      rows.forEach((j, place) => {
        const i = at(j, h);
        const y = 22 * place + 14;
        const kind = unsure(i) ? "hollow" : now.mean[i] < 0 ? "clear negative" : "clear";
        const words = `${described(j)}: ${two(now.mean[i])} (${span(now.lower[i], now.upper[i], two)})`;
        svg.append(
          make("text", { class: "label end", x: left - 8, y: y + 4 }, make("title", {}, described(j)), cut(beside(j), Math.floor((left - 10) / (worded ? 7.2 : 7.4)))),
          make("line", { class: kind, x1: x(now.lower[i]), x2: x(now.upper[i]), y1: y, y2: y }),
          make("circle", { class: kind, cx: x(now.mean[i]), cy: y, r: 4.2 }, make("title", {}, words)),
        );
      });
      const title = make("h3", {}, now.factors ? `${h + 1} ${now.factors[h]}` : `Factor ${h + 1}`);
      const words = make("p", {}, `${percent(share[0])} of the variance (${(100 * share[1]).toFixed(1)} – ${percent(share[2])})`);
      panels.push(make("figure", {}, make("figcaption", {}, title, words), svg));
    }
    forest.replaceChildren(...panels);
  };

  const phi = byId("phi");
  const drawPhi = () => {
    if (!now.correlations) { phi.replaceChildren(); return; }
    const head = make("tr", {}, make("td"), ...now.correlations.map((_, h) => make("th", { scope: "col" }, short(h))));
    const rows = now.correlations.map((row, h) => make("tr", {}, make("th", { scope: "row" }, short(h)),
      ...row.map((value, g) => make("td", {}, g <= h ? two(value) : ""))));
    const table = make("table", { class: "phi" }, make("caption", {}, "Correlations of the factors"), make("thead", {}, head), make("tbody", {}, ...rows));
    phi.replaceChildren(make("div", { class: "scroll-phi" }, table));
  };

  // --- table ---

  const table = byId("table");
  const find = byId("find");
  const FIRST = 100;
  let sorted = { by: "group", down: true };
  let all = false;

  const rowsNow = () => {
    const wanted = find.value.trim().toLocaleLowerCase();
    const rows = now.order.filter((j) => !wanted || described(j).toLocaleLowerCase().includes(wanted));
    if (sorted.by === "group") return rows;
    const value = sorted.by === "name" ? null
      : sorted.by === "common" ? (j) => common[0][j] : (j) => now.mean[at(j, sorted.by)];
    const order = value ? (a, b) => value(a) - value(b)
      : (a, b) => data.names[a].localeCompare(data.names[b], undefined, { numeric: true });
    rows.sort(order);
    return sorted.down ? rows.reverse() : rows;
  };
  const heading = (label, by, title) => {
    const button = make("button", { type: "button", title }, label);
    const cell = make("th", { scope: "col" }, button);
    if (sorted.by === by) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      sorted = sorted.by === by ? { by, down: !sorted.down } : { by, down: by !== "name" };
      drawTable();
      const again = table.querySelectorAll("thead button")[by === "name" ? 0 : by === "common" ? now.k + 1 : by + 1];
      again.focus();
    });
    return cell;
  };
  const bodyRow = (j) => {
    const words = data.labels && data.labels[j] ? [make("small", { class: "wording" }, data.labels[j])] : [];
    const cells = [make("th", { scope: "row" }, data.names[j], ...words)];
    for (let h = 0; h < now.k; h += 1) {
      const i = at(j, h);
      const value = now.mean[i];
      const cell = make("td", {}, make("b", {}, two(value)), make("small", {}, span(now.lower[i], now.upper[i], two)));
      if (unsure(i)) cell.classList.add("unsure");
      if (Math.abs(value) >= 0.3) cell.classList.add("big-loading");
      const strength = Math.round(45 * Math.min(1, Math.abs(value)));
      cell.style.background = `color-mix(in srgb, var(${value < 0 ? "--orange" : "--blue"}) ${strength}%, var(--card))`;
      cells.push(cell);
    }
    cells.push(make("td", {}, make("b", {}, two(common[0][j])), make("small", {}, span(common[1][j], common[2][j], two))));
    return make("tr", {}, ...cells);
  };
  const drawTable = () => {
    const rows = rowsNow();
    const shown = all ? rows : rows.slice(0, FIRST);
    const heads = [heading("Variable", "name", "Sort by name")];
    for (let h = 0; h < now.k; h += 1) heads.push(heading(short(h), h, `Sort by the loading on ${factor(h)}`));
    heads.push(heading("h²", "common", "Sort by communality"));
    table.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...shown.map(bodyRow)));
    byId("count").textContent = rows.length === p ? `${p} variables` : `${rows.length} of ${p} variables`;
    const more = byId("more");
    more.hidden = shown.length === rows.length;
    more.textContent = `Show all ${rows.length} rows`;
  };

  const drawAxes = () => {
    byId("axes-note").textContent = now.note;
    drawForest();
    drawPhi();
    drawTable();
  };
  if (map) {
    drawMap();
    let width = map.clientWidth;
    const sizes = new ResizeObserver(() => {
      if (map.clientWidth !== width) { width = map.clientWidth; drawMap(); }
    });
    sizes.observe(map);
    if (signal) signal.addEventListener("abort", () => sizes.disconnect());
  }
  if (table) {
    for (const input of root.querySelectorAll('input[name="axes"]')) {
      input.addEventListener("change", () => {
        now = axes.get(input.value);
        if (typeof sorted.by === "number") sorted = { by: "group", down: true };
        leaveMap();
        drawMap();
        drawAxes();
      });
    }
    find.addEventListener("input", drawTable);
    byId("intervals").addEventListener("change", (event) => table.classList.toggle("no-intervals", !event.target.checked));
    byId("more").addEventListener("click", () => { all = true; drawTable(); });
    window.addEventListener("beforeprint", () => { if (p <= 300) { all = true; drawTable(); } }, { signal });
    drawAxes();
  }

  // --- correlations ---

  const pairs = data.correlation || { sample: null, fitted: null };
  const order = pairs.order ? Array.from(whole(pairs.order)) : [];
  const triangle = { sample: pairs.sample && unpack(pairs.sample), fitted: pairs.fitted && unpack(pairs.fitted) };
  const pair = (kind, i, j) => triangle[kind][i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i];
  for (const figure of root.querySelectorAll("[data-matrix]")) {
    const picture = figure.querySelector("svg");
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const place = (value, size) => order[Math.max(0, Math.min(order.length - 1, Math.floor(order.length * value / size)))];
      const i = place(event.clientY - box.top, box.height);
      const j = place(event.clientX - box.left, box.width);
      const lines = [`${data.names[i]} and ${data.names[j]}`];
      if (triangle.sample) lines.push(`sample ${two(pair("sample", i, j))}`);
      if (triangle.fitted) lines.push(`fitted ${two(pair("fitted", i, j))}`);
      if (triangle.sample && triangle.fitted) lines.push(`residual ${(pair("sample", i, j) - pair("fitted", i, j)).toFixed(3).replace("-", "−")}`);
      say(lines.join("\n"), event.clientX, event.clientY);
    });
    picture.addEventListener("pointerleave", hush);
  }
  const allPairs = byId("all-pairs");
  if (allPairs) allPairs.hidden = !triangle.fitted;

  // --- downloads ---

  const quoted = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    // Spreadsheets run what begins as a formula does: a quote before it makes it text.
    if (/^[=+\-@\t\r\n]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const four = (value) => Number(value.toFixed(4));
  const head = (h) => (now.factors ? now.factors[h] : `factor${h + 1}`);
  const tables = {
    loadings: () => {
      const names = data.labels ? ["variable", "label"] : ["variable"];
      for (let h = 0; h < now.k; h += 1) for (const end of ["", "_lower", "_upper", "_false_sign_rate"]) names.push(`${head(h)}${end}`);
      return [names, ...data.names.map((name, j) => {
        const line = data.labels ? [name, data.labels[j]] : [name];
        for (let h = 0; h < now.k; h += 1) for (const side of [now.mean, now.lower, now.upper, now.sign]) line.push(four(side[at(j, h)]));
        return line;
      })];
    },
    communalities: () => [["variable", "communality", "lower", "upper"],
      ...data.names.map((name, j) => [name, ...common.map((side) => four(side[j]))])],
    correlations: () => {
      const kinds = ["sample", "fitted"].filter((kind) => triangle[kind]);
      const lines = [["variable1", "variable2", ...kinds]];
      for (let i = 0; i < p; i += 1) for (let j = 0; j < i; j += 1) lines.push([data.names[j], data.names[i], ...kinds.map((kind) => four(pair(kind, i, j)))]);
      return lines;
    },
    scores: () => [data.axes[0].factors || data.axes[0].shares.map((_, h) => `factor${h + 1}`), ...data.scores],
  };
  for (const button of root.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => {
      const kind = button.dataset.download;
      const lines = kind in tables ? tables[kind]() : data.tables[kind];
      const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
      const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
      const name = kind === "loadings" ? `loadings_${now.key}.csv` : `${kind}.csv`;
      const link = make("a", { href: address, download: name });
      document.body.append(link);
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    });
  }
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => {
      const code = button.closest(".code").querySelector("code");
      const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 2000); };
      const select = () => { getSelection().selectAllChildren(code); button.textContent = "Selected"; };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, select);
      else select();
    });
  }

};

(() => {
  // --- light and dark ---

  const theme = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  dark.addEventListener("change", label);
  label();

  const own = document.getElementById("data");
  if (own) showReport(document, JSON.parse(own.textContent));
})();
