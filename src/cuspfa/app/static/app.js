"use strict";
/* The page of `cuspfa app`. The server computes; this shows what it sends, and sends what is asked. */
(() => {
  const MORE_TICKS = 30;  // milliseconds to wait for another one, as of a group of columns
  const byId = (id) => document.getElementById(id);
  const result = byId("result");
  let limits = { upload: Infinity };
  let shown = null;       // the answer that is shown
  let names = [];         // of its factors
  let drawing = null;     // ends what the last drawing listens to
  let asked = 0;          // when the answer was asked for
  let soon = 0;

  // --- what the person has set ---

  const ticks = () => Array.from(document.querySelectorAll('input[name="column"]'));
  const settings = () => {
    const form = new FormData(byId("controls"));
    const value = (name) => {
      const found = byId("controls").elements[name];
      return found && found.value !== "" ? found.value : null;
    };
    const error = value("model_error");
    return {
      columns: ticks().length ? ticks().filter((one) => one.checked).map((one) => one.value) : form.getAll("column"),
      rotation: value("rotation"),
      n_factors: value("n_factors") === null ? null : Number(value("n_factors")),
      model_error: error === "auto" ? error : Number(error),
      likelihood: value("likelihood"),
      names,
    };
  };
  const unnamed = (one) => JSON.stringify({ ...one, names: [] });

  // --- asking ---

  const complain = (text) => {
    byId("error").textContent = text;
    byId("error").hidden = !text;
  };
  const told = async (address, request) => {
    try {
      const answer = await fetch(address, request);
      if (answer.ok) return answer;
      complain(await answer.text());
    } catch {
      complain("The program that serves this page cannot be reached. Start it again: cuspfa app");
    }
    return null;
  };
  const ask = (job) => told("ask", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(job),
  });
  const fit = (began = performance.now()) => {
    complain("");
    asked = began;
    ask({ do: "fit", settings: settings() });
  };
  const refit = (wait) => {
    if (!shown) return;
    names = [];
    clearTimeout(soon);
    const began = performance.now();
    soon = setTimeout(() => fit(began), wait);
  };
  const open = async (file) => {
    complain("");
    if (file.size > limits.upload) {
      complain(`${file.name} has more than ${Math.floor(limits.upload / 2 ** 20)} MB. Fit it in the shell: cuspfa fit ${file.name}`);
      return;
    }
    working(`Sending ${file.name}`, false);
    const words = new URLSearchParams({ name: file.name, missing: byId("missing").value });
    if (!await told(`file?${words}`, { method: "PUT", body: file })) working("", false);
  };

  // --- progress ---

  let since = 0;
  let clock = 0;
  const working = (text, canStop) => {
    byId("progress").hidden = !text;
    byId("busy").textContent = text;
    byId("stop").hidden = !canStop;
    if (text && !clock) {
      since = performance.now();
      clock = setInterval(() => {
        byId("elapsed").textContent = `${((performance.now() - since) / 1000).toFixed(0)} s`;
      }, 500);
    } else if (!text) {
      clearInterval(clock);
      clock = 0;
      byId("elapsed").textContent = "";
    }
  };

  // --- showing ---

  const draw = (root, data) => {
    if (drawing) drawing.abort();
    drawing = new AbortController();
    showReport(root, data, drawing.signal);
  };
  const tag = (text) => {
    const one = document.createElement("p");
    one.className = "tag";
    one.textContent = text;
    return one;
  };
  const keepBefore = () => {
    const before = byId("before");
    const copy = byId("now").cloneNode(true);
    for (const one of copy.querySelectorAll("[id]")) one.removeAttribute("id");
    for (const one of copy.querySelectorAll("[tabindex]")) {
      for (const name of ["tabindex", "role", "aria-label"]) one.removeAttribute(name);
    }
    for (const one of copy.querySelectorAll(".drawn svg")) {
      one.setAttribute("width", "100%");
      one.removeAttribute("height");
    }
    copy.querySelector(".tag").textContent = "Before";
    before.replaceChildren(...copy.childNodes);
    before.hidden = false;
  };
  const showNames = (answer) => {
    const given = answer.settings.names;
    byId("naming").hidden = !answer.n_factors;
    byId("names").replaceChildren(...answer.names.map((name, h) => {
      const label = document.createElement("label");
      const input = document.createElement("input");
      input.type = "text";
      input.maxLength = 200;
      input.autocomplete = "off";
      input.placeholder = `Factor ${h + 1}`;
      input.value = given[h] && given[h] !== input.placeholder ? given[h] : "";
      input.addEventListener("change", rename);
      label.append(`Factor ${h + 1}`, input);
      return label;
    }));
  };
  const rename = () => {
    const written = Array.from(byId("names").querySelectorAll("input"), (one) => one.value.trim());
    names = written.some((one) => one) ? written.map((one, h) => one || `Factor ${h + 1}`) : [];
    fit();
  };

  const onTable = (part) => {
    shown = null;
    names = part.settings.names;
    complain("");
    byId("file-name").textContent = part.name;
    document.title = `${part.name}: cuspfa`;
    byId("data-title").textContent = part.size ? `${part.name}: ${part.size}` : part.name;
    byId("drop").classList.add("small");
    byId("table-part").innerHTML = part.html;
    byId("controls").innerHTML = part.controls;
    byId("missing").value = part.missing;
    byId("no-rows").disabled = !part.has_rows;
    byId("no-rows").checked = !part.has_rows;
    for (const id of ["model"]) byId(id).hidden = false;
    for (const id of ["result", "save", "before"]) byId(id).hidden = true;
    byId("report").replaceChildren();
    byId("now").replaceChildren();
    if (part.html.includes("name=\"column\"")) {
      countTicks();
      byId("tick-all").addEventListener("click", () => tickEvery(true));
      byId("tick-none").addEventListener("click", () => tickEvery(false));
      byId("find-column").addEventListener("input", findColumn);
    } else {
      fit();
    }
  };
  const onAnswer = (answer) => {
    const other = shown && unnamed(shown.settings) !== unnamed(answer.settings);
    if (other) keepBefore();
    const focused = document.activeElement && byId("names").contains(document.activeElement);
    shown = answer;
    complain("");
    result.hidden = false;
    byId("save").hidden = false;
    byId("now").innerHTML = answer.html;
    byId("now").prepend(tag("Now"));
    byId("report").classList.add("old");
    byId("report").setAttribute("aria-busy", "true");
    if (!focused || other) showNames(answer);
    draw(byId("now"), answer.data);
    if (asked) {
      const began = asked;
      asked = 0;
      requestAnimationFrame(() => setTimeout(() => {
        document.documentElement.dataset.drawn = (performance.now() - began).toFixed(1);
      }));
    }
  };
  const onReport = (part) => {
    if (!shown || JSON.stringify(part.settings) !== JSON.stringify(shown.settings)) return;
    byId("report").innerHTML = part.html;
    byId("report").classList.remove("old");
    byId("report").setAttribute("aria-busy", "false");
    byId("methods").textContent = part.methods;
    byId("bibtex").textContent = part.bibtex;
    draw(result, part.data);
  };

  // --- columns ---

  const countTicks = () => {
    const every = ticks();
    byId("ticked").textContent = `${every.filter((one) => one.checked).length} of ${every.length} columns`;
  };
  const tickEvery = (yes) => {
    for (const one of ticks()) if (!one.disabled && !one.closest("tr").hidden) one.checked = yes;
    countTicks();
    refit(MORE_TICKS);
  };
  const findColumn = () => {
    const wanted = byId("find-column").value.trim().toLocaleLowerCase();
    for (const row of document.querySelectorAll(".columns tbody tr")) {
      row.hidden = Boolean(wanted) && !row.firstElementChild.textContent.toLocaleLowerCase().includes(wanted);
    }
  };

  // --- saving ---

  const save = async (what) => {
    const on = (id) => byId(id).checked;
    const words = new URLSearchParams({
      kind: byId("kind").value,
      suppress: on("suppress") ? "1" : "0",
      intervals: on("with-intervals") ? "1" : "0",
      rows: on("no-rows") ? "0" : "1",
      statistics: on("no-statistics") ? "0" : "1",
    });
    byId("saved").textContent = "The file is being written.";
    complain("");
    const answer = await told(`get/${what}?${words}`);
    if (!answer) {
      byId("saved").textContent = "";
      return;
    }
    const name = decodeURIComponent(answer.headers.get("content-disposition").split("''")[1]);
    const address = URL.createObjectURL(await answer.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    byId("saved").textContent = `Saved as ${name}.`;
  };

  // --- events of the person ---

  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) open(event.target.files[0]);
    event.target.value = "";
  });
  byId("example").addEventListener("click", () => { complain(""); ask({ do: "example" }); });
  byId("stop").addEventListener("click", () => ask({ do: "stop" }));
  byId("table-part").addEventListener("change", (event) => {
    if (event.target.name === "column") { countTicks(); refit(MORE_TICKS); }
  });
  byId("controls").addEventListener("change", () => refit(0));
  byId("controls").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(soon); fit(); });
  for (const button of document.querySelectorAll("[data-get]")) {
    button.addEventListener("click", () => save(button.dataset.get));
  }
  byId("copy-methods").addEventListener("click", () => {
    const button = byId("copy-methods");
    const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 2000); };
    const select = () => { getSelection().selectAllChildren(byId("methods")); button.textContent = "Selected"; };
    if (navigator.clipboard) navigator.clipboard.writeText(byId("methods").textContent).then(done, select);
    else select();
  });
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  document.addEventListener("dragover", () => byId("drop").classList.add("over"));
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) byId("drop").classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    byId("drop").classList.remove("over");
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });

  // --- events of the server ---

  const events = new EventSource("events");
  const on = (name, show) => events.addEventListener(name, (event) => show(JSON.parse(event.data)));
  let lost = 0;
  on("limits", (part) => { limits = part; });
  on("table", onTable);
  on("answer", onAnswer);
  on("report", onReport);
  on("busy", (part) => working(part.text, Boolean(part.can_stop)));
  on("trouble", (part) => { complain(part.text); working("", false); });
  on("lost", () => { shown = null; result.hidden = true; byId("save").hidden = true; });
  events.addEventListener("open", () => { if (lost) complain(""); lost = 0; });
  events.onerror = () => {
    const gone = events.readyState === EventSource.CLOSED;
    lost += 1;
    working("", false);
    if (gone || lost > 2) {
      complain(gone ? "This page was closed by the program. Load it again."
        : "The program that serves this page cannot be reached. Start it again: cuspfa app");
    }
  };
})();
