// The palette: finds kernels, findings, steps, ranges, parts of the page and words by name, selects what is chosen and goes there.
(() => {
  "use strict";
  const MOST = 50;
  const { nsyswrap } = globalThis;
  const { selection, things } = nsyswrap;
  const byId = (id) => document.getElementById(id);
  let shown = [];
  let at = 0;

  const entry = (kind, label, act, also = "", note = "") => ({ kind, label, act, note, sought: `${kind} ${label} ${also}`.toLowerCase() });

  /** Return an entry that selects; its note says the time and the place. */
  const selecting = (detail, label = detail.id, also = "", note = "") =>
    entry(detail.kind, label, () => { selection.select(detail); selection.reveal(detail); }, also, note);

  /** Return the time and the place of a step. */
  const whenOf = ({ start_ns: start, end_ns: end }) => `${((end - start) / 1e6).toPrecision(3)} ms from ${(start / 1e9).toFixed(6)} s`;

  /** Return the time and the place of each kernel and each range, by name, from the tables of the page. */
  function placesOf(tables) {
    const found = new Map();
    for (const table of nsyswrap.tables.filter((one) => tables.test(one.table.dataset.name) && one.columns.has("total_ns"))) {
      const unit = table.heads[table.columns.get("total_ns")].querySelector(".unit")?.textContent ?? "";
      const part = table.table.closest("section")?.querySelector("h2 bdi").textContent ?? "";
      for (const row of table.first) {
        const time = `${row.cells[table.columns.get("total_ns")].textContent.trim()} ${unit}`.trim();
        const where = ["module", "phase"].filter((name) => table.columns.has(name)).map((name) => table.text(row, name)).find(Boolean);
        const name = table.text(row, "name");
        if (!found.has(name)) found.set(name, `${time}, ${where || part}`);
      }
    }
    return found;
  }

  // The part that is gone to has the focus, so that Tab goes on from there.
  const go = (id) => () => {
    const part = byId(id);
    nsyswrap.show(part);
    part.tabIndex = -1;
    part.focus({ preventScroll: true });
    part.classList.add("arrived");
    setTimeout(() => part.classList.remove("arrived"), 3000);
  };

  /** Return what the page calls a word of its glossary, such as “GPU idle” for “busy”. */
  const labelsOf = (id) => [...document.querySelectorAll(`a.term[href="#${CSS.escape(id)}"]`)].map((one) => one.textContent).join(" ");

  /** Return the entries of steps, in order of time. Of steps with one name, as ranks have them, each also has its start. */
  function stepEntries(steps) {
    const count = new Map();
    for (const { id } of steps) count.set(id, (count.get(id) ?? 0) + 1);
    const label = ({ id, start_ns: start }) => (count.get(id) > 1 ? `${id}, from ${(start / 1e9).toFixed(6)} s` : id);
    return steps.map((step) => selecting(step, label(step), "", whenOf(step)));
  }

  const stepPart = (name) => document.querySelector(`[data-step="${name}"]`);

  /** Return an entry that pins the typical step and shows another one above it. */
  const comparing = (name) => entry("do", `Compare the ${name} step with the typical step`, () => {
    stepPart("typical").click();
    stepPart("pin").click();
    stepPart(name).click();
    go("step")();
  });

  /** Return what can be done on this page. */
  function actions() {
    const click = (id) => () => byId(id).click();
    return [
      entry("do", "Copy the summary as Markdown", click("copy-summary")),
      entry("do", "Copy the summary as a picture", click("copy-picture")),
      ...(stepPart("controls")?.hidden === false ? [comparing("slowest"), comparing("fastest")] : []),
      ...(byId("timeline") ? [entry("do", "Show what is selected in the timeline", nsyswrap.toTimeline)] : []),
    ];
  }

  /** Return all entries, in the order in which they are shown. */
  function entries() {
    const steps = [...things.steps().values()].sort((one, other) => one.start_ns - other.start_ns);
    const names = new Set(steps.map((step) => step.id));
    const findings = things.findings().map((one) => selecting(things.plain("finding", one.id), one.querySelector("h3").textContent, things.ruleOf(one), one.querySelector(".saving, .cost dd")?.textContent ?? ""));
    const parts = [...document.querySelectorAll("nav a")].map((link) => entry("part", link.textContent, go(link.hash.slice(1))));
    const [ofKernels, ofRanges] = [placesOf(/^kernels-/), placesOf(/^ranges-(summary|projection)$/)];
    const plain = (kind, ids) => [...ids].map((id) => selecting(things.plain(kind, id), id, "", ofRanges.get(id)));
    const kernels = [...things.kernels()].map((name) => selecting(things.plain("kernel", name), things.shortName(name), name, ofKernels.get(name)));
    const ranges = [...things.ranges()].filter((name) => !names.has(name));
    const words = [...document.querySelectorAll("#glossary .pairs > div")].map((one) => entry("word", one.querySelector("dt").textContent, go(one.id), labelsOf(one.id)));
    return [
      ...findings, ...parts, ...actions(), ...stepEntries(steps), ...plain("phase", things.phases()), ...plain("rank", things.ranks()),
      ...kernels, ...plain("range", ranges), ...words,
    ];
  }

  /** Return the entries that hold all words; those whose name begins with the text come first. */
  function matches(all, text) {
    const query = text.trim().toLowerCase();
    const words = query.split(/\s+/).filter(Boolean);
    if (!words.length) return all.filter(({ kind }) => ["finding", "part", "do"].includes(kind));
    const found = all.filter(({ sought }) => words.every((word) => sought.includes(word)));
    const rank = ({ label }) => (label.toLowerCase() === query ? 0 : label.toLowerCase().startsWith(query) ? 1 : 2);
    return found.sort((one, other) => rank(one) - rank(other));
  }

  /** Return the entry that filters the tables by the text. */
  const filtering = (text) => entry("tables", `Show only rows with “${text.trim()}”`, () => nsyswrap.filterTables(text));

  function option(one, number) {
    const made = nsyswrap.make("li");
    made.id = `palette-${number}`;
    made.setAttribute("role", "option");
    made.append(nsyswrap.make("span", "kind", one.kind), nsyswrap.make("bdi", "", one.label));
    if (one.note) made.append(nsyswrap.make("span", "place-note", one.note));
    return made;
  }

  /** Make an option the active one. */
  function activate(number) {
    const options = [...byId("palette-list").children];
    at = options.length ? (number + options.length) % options.length : 0;
    options.forEach((one, index) => one.setAttribute("aria-selected", String(index === at)));
    if (options.length) byId("palette-input").setAttribute("aria-activedescendant", options[at].id);
    else byId("palette-input").removeAttribute("aria-activedescendant");
    options[at]?.scrollIntoView({ block: "nearest" });
  }

  function update() {
    const text = byId("palette-input").value;
    const all = matches(palette.all, text);
    shown = all.slice(0, MOST);
    if (text.trim()) shown.push(filtering(text));
    byId("palette-list").replaceChildren(...shown.map(option));
    byId("palette-note").textContent = all.length > MOST ? `${MOST} of ${all.length} matches. Type more to find the others.` : `${all.length} matches`;
    activate(0);
  }

  const palette = {
    all: [],
    open() {
      const dialog = byId("palette");
      if (document.querySelector("dialog[open]")) return;
      palette.all = entries();
      byId("palette-input").value = "";
      dialog.showModal();
      update();
    },
    choose(number) {
      const one = shown[number];
      if (!one) return;
      byId("palette").close();
      one.act();
    },
  };

  function startKeys() {
    byId("palette-input").addEventListener("keydown", (event) => {
      const acts = { ArrowDown: () => activate(at + 1), ArrowUp: () => activate(at - 1), Enter: () => palette.choose(at), Escape: () => byId("palette").close() };
      const act = Object.hasOwn(acts, event.key) && !event.isComposing ? acts[event.key] : null;
      if (!act) return;
      event.preventDefault();
      act();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog[open]");
      if (event.key !== "/" || typing || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      palette.open();
    });
  }

  function startPointer() {
    byId("find").addEventListener("click", palette.open);
    byId("palette").addEventListener("click", (event) => { if (event.target === byId("palette")) byId("palette").close(); });
    byId("palette-list").addEventListener("click", (event) => {
      const chosen = event.target.closest("li");
      if (chosen) palette.choose([...byId("palette-list").children].indexOf(chosen));
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    byId("palette-input").addEventListener("input", update);
    startKeys();
    startPointer();
  });
})();
