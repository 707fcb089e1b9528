// Rows and the selection: a row selects what it is about, the rows that belong to a selection are marked, and where they are
// is shown. Arrow keys go from row to row of a table, Enter selects.
(() => {
  "use strict";
  const { nsyswrap } = globalThis;
  const { selection, things } = nsyswrap;
  let isLimited = false;
  let own = [];
  let at = -1;

  const isSame = (one, other) => one !== null && one.kind === other.kind && one.id === other.id && one.start_ns === other.start_ns;

  /** Mark the rows of each table that belong to the selection, and those that are what is selected. */
  function mark() {
    const chosen = selection.current();
    const belongs = things.membership(chosen, nsyswrap.timeline?.statistics(chosen));
    own = [];
    at = -1;
    for (const table of nsyswrap.tables) {
      const rows = new Set(chosen.kind ? table.first.filter((row) => belongs(table, row)) : []);
      for (const row of table.first) {
        const isOwn = rows.has(row) && isSame(things.ofRow(table, row), chosen);
        row.classList.toggle("belongs", rows.has(row));
        row.classList.toggle("lit", isOwn);
        if (isOwn) own.push(row);
        if (isOwn) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
      }
      table.choose(rows, isLimited && Boolean(chosen.kind));
    }
    document.dispatchEvent(new CustomEvent("nsyswrap:marked"));
  }

  /** Bring a row into sight, and open the folded parts around it. */
  function show(row) {
    row.classList.remove("over");
    nsyswrap.show(row, "center");
  }

  /** Return the rows to go to: those of what is selected, else all that belong to it. */
  const places = () => (own.length ? own : nsyswrap.tables.flatMap((table) => table.first.filter((row) => row.classList.contains("belongs"))));

  /** Go to the next row of the selection. */
  function nextRow() {
    const rows = places();
    if (!rows.length) return;
    at = (at + 1) % rows.length;
    show(rows[at]);
    rows[at].tabIndex = -1;
    rows[at].focus({ preventScroll: true });
  }

  /** Bring a selection into sight: a finding, an interval in the timeline, else its first row. */
  function reveal({ kind, id }) {
    const finding = kind === "finding" ? document.getElementById(id) : null;
    const timeline = document.getElementById("timeline");
    const isInterval = kind === "step" || kind === "window";
    if (finding) {
      nsyswrap.show(finding);
    } else if (places().length && !(isInterval && timeline)) {
      show(places()[0]);
    } else if (timeline) {
      nsyswrap.show(timeline);
    }
  }

  const rowAt = (event) => (event.target instanceof Element ? event.target.closest("table.data > tbody > tr") : null);
  const tableOf = (row) => nsyswrap.tables.find((one) => one.body === row.parentElement);

  function choose(row) {
    const table = tableOf(row);
    const found = table ? things.ofRow(table, row) : null;
    if (found) selection.select(found);
    return found !== null;
  }

  /** Let Tab stop at the first row in sight of each table whose rows select something. */
  function startTab(table) {
    const selects = table.first.length > 0 && things.ofRow(table, table.first[0]) !== null;
    table.table.classList.toggle("picks", selects);
    const stop = () => {
      const seen = table.rows.filter((row) => !row.hidden && !row.classList.contains("over"));
      // A row with the focus keeps it.
      const next = seen.find((row) => row === document.activeElement) ?? seen.find((row) => row.classList.contains("lit")) ?? seen[0];
      table.rows.filter((row) => row !== next).forEach((row) => row.removeAttribute("tabindex"));
      if (next) next.tabIndex = 0;
    };
    if (!selects) return;
    table.table.addEventListener("nsyswrap:shown", stop);
    stop();
  }

  function startKeys() {
    document.addEventListener("keydown", (event) => {
      const row = rowAt(event);
      if (!row || event.target !== row || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (step) {
        let next = row[step];
        while (next && !next.getClientRects().length) next = next[step];
        if (!next) return;
        row.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      } else if (!["Enter", " "].includes(event.key) || !choose(row)) {
        return;
      }
      event.preventDefault();
    });
  }

  function startClicks() {
    document.addEventListener("click", (event) => {
      const row = rowAt(event);
      if (!row || event.target.closest("a, button, input") || getSelection().type === "Range") return;
      choose(row);
    });
  }

  Object.assign(selection, {
    reveal, nextRow,
    rowCount: () => places().length,
    limit: (limited) => { isLimited = limited; mark(); },
    isLimited: () => isLimited,
  });
  document.addEventListener(selection.EVENT, mark);
  document.addEventListener("DOMContentLoaded", () => {
    nsyswrap.tables.forEach(startTab);
    startKeys();
    startClicks();
  });
})();
