// The panel "Selection": what is selected, its kernels and its patterns of gaps, and ways to its rows and places.
(() => {
  "use strict";
  const MOST = 6;
  const { nsyswrap } = globalThis;
  const { make, selection, things } = nsyswrap;
  const KINDS = { window: "interval" };
  const byId = (id) => document.getElementById(id);
  let isKnown = false;

  /** Return the name of a selection. */
  function nameOf({ kind, id }) {
    if (kind === "finding") return byId(id)?.querySelector("h3").textContent ?? id;
    return kind === "window" ? "" : id;
  }

  /** Return a button that selects something. */
  function selects(text, detail) {
    const button = make("button", "pick");
    button.append(make("bdi", "", text));
    button.addEventListener("click", () => selection.select(detail));
    return button;
  }

  /** Return a table of at most a few rows; each row has a cell with a button, then numbers. */
  function list(caption, heads, rows) {
    const table = make("table", "mini");
    const head = table.createTHead().insertRow();
    table.createCaption().textContent = caption;
    heads.forEach((text, at) => {
      const cell = make("th", at ? "n" : "", text);
      cell.scope = "col";
      head.append(cell);
    });
    const body = table.createTBody();
    for (const [first, ...numbers] of rows.slice(0, MOST)) {
      const row = body.insertRow();
      row.insertCell().append(...[first].flat());
      numbers.forEach((text) => { const cell = row.insertCell(); cell.className = "n"; cell.textContent = text; });
    }
    const box = make("div", "listed");
    box.append(table);
    if (rows.length > MOST) box.append(make("p", "fine", `${MOST} of ${rows.length}, most time first`));
    return box;
  }

  /** Return a rule and a phase as text, with a button where the rule has a finding. */
  function pattern(rule, phase) {
    const finding = things.findingOfRule(rule);
    const text = phase && phase !== "none" ? [` in ${phase}`] : [];
    return [finding ? selects(rule, things.plain("finding", finding.id)) : make("bdi", "", rule), ...text];
  }

  /** Return the value of a row in a column as text with its unit. */
  function shown(table, row, column) {
    const at = table.columns.get(column);
    const unit = table.heads[at].querySelector(".unit")?.textContent ?? "";
    const isTime = column.endsWith("_ns") && nsyswrap.timeline && row.cells[at].dataset.v;
    return isTime ? nsyswrap.timeline.duration(Math.round(table.number(row, column))) : `${row.cells[at].textContent.trim()}${unit && ` ${unit}`}`;
  }

  /** Return the patterns of gaps of the table of the page that belong to a selection. */
  function patternsOfPage() {
    const table = nsyswrap.tables.find((one) => one.table.dataset.name === "idle-patterns");
    const rows = table ? table.first.filter((row) => row.classList.contains("belongs")) : [];
    return rows.map((row) => [pattern(table.text(row, "rule"), table.text(row, "phase")), shown(table, row, "count"), shown(table, row, "median_ns"), shown(table, row, "idle_ns")]);
  }

  /** Return the numbers of a kernel from the table of all kernels. */
  function factsOfRow(id) {
    const table = nsyswrap.tables.find((one) => one.table.dataset.name === "kernels-summary");
    const row = table?.first.find((one) => table.text(one, "name") === id);
    if (!row) return [];
    const labels = { count: "calls", total_ns: "total", median_ns: "median", share: "share of kernel time" };
    return Object.entries(labels).filter(([column]) => table.columns.has(column)).map(([column, label]) => [label, shown(table, row, column)]);
  }

  /** Return label and value of what is known of a selection. */
  function factsOf(chosen, statistics) {
    if (chosen.kind === "kernel") return factsOfRow(chosen.id);
    if (chosen.kind !== "finding") return statistics?.facts ?? [];
    const pairs = byId(chosen.id)?.querySelectorAll(".cost > div:not(.also)") ?? [];
    const words = (one) => [...one.querySelector("dd").childNodes].map((node) => node.textContent.trim()).filter(Boolean).join(", ").replaceAll(", (", " (");
    return [...pairs].map((one) => [one.querySelector("dt").textContent, words(one)]);
  }

  /** Return the lists of a selection: its kernels and its patterns of gaps. */
  function listsOf(chosen, statistics) {
    const lists = [];
    if (statistics?.kernels.length && chosen.kind !== "kernel") {
      const rows = statistics.kernels.map(({ name, count, ns }) => [selects(things.shortName(name), things.plain("kernel", things.wholeName(name))), `${count}`, nsyswrap.timeline.duration(Math.round(ns))]);
      lists.push(list(statistics.isOfGaps ? "Kernels that start after its gaps" : "Top kernels", ["kernel", "calls", "time"], rows));
    }
    const heads = ["why the GPU was idle", "gaps", "median", "idle"];
    const own = statistics?.isInterval || statistics?.isOfKernels;
    const found = own
      ? statistics.gaps.map(({ rule, phase, count, median, ns }) => [pattern(rule, phase), `${count}`, nsyswrap.timeline.duration(Math.round(median)), nsyswrap.timeline.duration(Math.round(ns))])
      : patternsOfPage();
    const title = statistics?.isOfKernels ? "Gaps that end when it starts" : "Gaps by reason";
    if (found.length) lists.push(list(title, heads, found));
    if (!lists.length) lists.push(make("p", "fine", "No kernel and no gap of this page belongs to it."));
    if (statistics?.note) lists.push(make("p", "fine wide", statistics.note));
    return lists;
  }

  function showFacts(place, facts) {
    place.replaceChildren(...facts.map(([label, value]) => {
      const pair = make("div");
      pair.append(make("dt", "", label), make("dd", "", value));
      return pair;
    }));
  }

  /** Set the buttons that lead to the rows and places of a selection. */
  function showWays(statistics) {
    const rows = selection.rowCount();
    const has = byId("timeline") !== null && nsyswrap.timeline !== undefined;
    byId("selection-previous").hidden = byId("selection-next").hidden = !statistics?.hasPlaces;
    byId("selection-timeline").hidden = !has;
    byId("selection-rows").hidden = rows < 1;
    byId("selection-rows").textContent = rows === 1 ? "Its row" : `Its ${rows} rows`;
    byId("selection-only").setAttribute("aria-pressed", String(selection.isLimited()));
  }

  /** Show the selection; nothing where there is none. */
  function show() {
    const panel = byId("selection");
    const chosen = selection.current();
    // Open where there is room, until the reader closes it.
    if (chosen.kind && !isKnown) byId("selection-body").open = matchMedia("(min-width: 60.01rem)").matches;
    isKnown ||= Boolean(chosen.kind);
    panel.hidden = !chosen.kind;
    document.documentElement.classList.toggle("has-selection", Boolean(chosen.kind));
    if (!chosen.kind) return;
    const statistics = nsyswrap.timeline?.statistics(chosen);
    byId("selection-kind").textContent = KINDS[chosen.kind] ?? chosen.kind;
    byId("selection-name").textContent = nameOf(chosen);
    showFacts(byId("selection-facts"), factsOf(chosen, statistics));
    byId("selection-lists").replaceChildren(...listsOf(chosen, statistics));
    showWays(statistics);
  }

  function announce() {
    const chosen = selection.current();
    if (!chosen.kind) return nsyswrap.announce("Nothing is selected.");
    const rows = document.querySelectorAll("table.data tr.belongs").length;
    return nsyswrap.announce(`Selected: ${KINDS[chosen.kind] ?? chosen.kind} ${nameOf(chosen)}. ${rows} rows belong to it.`);
  }

  function start() {
    const act = (id, action) => byId(id).addEventListener("click", action);
    const toTimeline = () => nsyswrap.show(byId("timeline"));
    const step = (by) => () => { toTimeline(); nsyswrap.timeline.stepPlace(by); };
    act("selection-previous", step(-1));
    act("selection-next", step(1));
    act("selection-timeline", toTimeline);
    act("selection-rows", selection.nextRow);
    act("selection-only", () => selection.limit(!selection.isLimited()));
    act("selection-link", () => nsyswrap.copy(byId("selection-link"), location.href, "Copied"));
    act("selection-clear", selection.clear);
    for (const button of document.querySelectorAll("[data-timeline]")) {
      button.hidden = !byId("timeline");
      button.addEventListener("click", () => { selection.select(things.plain("finding", button.dataset.timeline)); nsyswrap.toTimeline(); });
    }
    document.addEventListener(selection.EVENT, announce);
    document.addEventListener("nsyswrap:marked", show);
  }

  document.addEventListener("DOMContentLoaded", start);
})();
