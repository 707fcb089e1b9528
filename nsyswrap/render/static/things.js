// What can be selected: kernels, findings, steps, phases, ranks and ranges. It is read from the tables of the page, and from
// the timeline once that is there. A selection has a kind, an id, and start and end in ns where it is an interval.
(() => {
  "use strict";
  const KERNEL_TABLES = /^kernels-|-kernels$|^tensor_cores-not_used$/;
  const RANGE_TABLES = /^ranges-(summary|projection)$/;
  const STEP_TABLES = /^steps-|^step_breakdown-steps$/;
  const { nsyswrap } = globalThis;

  // What the page holds changes only when the timeline is there.
  const known = new Map();
  document.addEventListener("nsyswrap:timeline", () => known.clear(), { capture: true });
  const once = (of) => () => {
    if (!known.has(of)) known.set(of, of());
    return known.get(of);
  };

  const named = (table) => table.table.dataset.name;
  const plain = (kind, id) => ({ kind, id, start_ns: null, end_ns: null });
  const spanKey = (start, end) => `${start}-${end}`;

  /** Return start and end of a row in ns; null where it has none. */
  function spanOf(row) {
    const { start, end } = "start" in row.dataset ? row.dataset : (row.querySelector("a.span")?.dataset ?? {});
    return start === undefined ? null : [Number(start), Number(end)];
  }

  /** Return the name of the kernel that a row is about; empty for none. */
  const kernelOf = (table, row) => (KERNEL_TABLES.test(named(table)) ? table.text(row, "name") : "");

  /** Return the name of the phase that a row is about; empty for none. */
  const phaseOf = (table, row) => row.dataset.phase ?? table.text(row, "phase");

  /** Return the rules and phases of the parts of a gap, from the row of the gap. */
  const piecesOf = (row) => JSON.parse(row.dataset.parts);

  const findings = once(() => [...document.querySelectorAll(".finding")]);
  const ruleOf = (finding) => finding.querySelector(".rule").textContent;

  /** Return the first finding of a rule, by the name of the rule; undefined where the page has none. */
  const findingOfRule = (rule) => findings().find((one) => ruleOf(one) === rule);

  /** Return each kernel that a table of the page names. */
  const kernels = once(() => {
    const found = new Set(nsyswrap.timeline?.kernels());
    nsyswrap.tables.forEach((table) => table.first.forEach((row) => found.add(kernelOf(table, row))));
    found.delete("");
    return found;
  });

  /** Return the names of kernels by what the page writes for them, and what it writes by name. */
  const shortNames = once(() => {
    const found = new Map();
    const taken = new Set();
    for (const table of nsyswrap.tables.filter((one) => KERNEL_TABLES.test(named(one)))) {
      for (const row of table.first) {
        const cell = row.cells[table.columns.get("name")];
        const [name, short] = [kernelOf(table, row), (cell.querySelector("summary") ?? cell).textContent.trim()];
        // Two tables may cut different names to the same; then the second one is written in full.
        if (!found.has(name)) found.set(name, taken.has(short) ? name : short);
        taken.add(short);
      }
    }
    return found;
  });
  const shortName = (name) => shortNames().get(name) ?? shortNames().get(wholeName(name)) ?? name;

  /** Return the whole name of a kernel that the timeline may have cut. */
  const wholeName = (name) => (name.includes("…") ? ([...kernels()].find((one) => nsyswrap.timeline?.isShort(name, one)) ?? name) : name);

  /** Return the rule of a finding and the kernels that it is about: those of its table, and those that its evidence names. */
  function factsOfFinding(id) {
    const finding = document.getElementById(id);
    const isOwn = (table) => `finding-${named(table).replace(/[^a-z0-9]+/g, "-")}` === id;
    const own = nsyswrap.tables.find(isOwn);
    const about = new Set(own && KERNEL_TABLES.test(named(own)) ? own.first.map((row) => kernelOf(own, row)) : []);
    const names = [...kernels()].sort((one, other) => other.length - one.length);
    for (const line of finding?.querySelectorAll(".evidence li") ?? []) {
      const name = names.find((one) => line.textContent.includes(one));
      if (name) about.add(name);
    }
    return { rule: finding ? ruleOf(finding) : "", kernels: about };
  }

  /** Return the steps by start and end: those of the timeline, the tables and the chart. */
  const steps = once(() => {
    const found = new Map();
    const add = (name, start, end) => found.set(spanKey(start, end), { kind: "step", id: name, start_ns: start, end_ns: end });
    for (const link of document.querySelectorAll("#section-steps figure a[data-name]")) {
      const at = /^#t=(-?\d+)-(-?\d+)$/.exec(link.hash);
      if (at) add(link.dataset.name, Number(at[1]), Number(at[2]));
    }
    for (const table of nsyswrap.tables.filter((one) => STEP_TABLES.test(named(one)))) {
      table.first.forEach((row) => { const at = spanOf(row); if (at) add(table.text(row, "name"), ...at); });
    }
    nsyswrap.timeline?.steps().forEach(({ name, start, end }) => add(name, start, end));
    return found;
  });

  /** Return the selection of an interval: a step where one has just these bounds. */
  function interval(start, end) {
    return steps().get(spanKey(start, end)) ?? { kind: "window", id: spanKey(start, end), start_ns: start, end_ns: end };
  }

  /** Return the different texts of a column of some tables. */
  function texts(tables, of) {
    const found = new Set(nsyswrap.tables.filter((table) => tables.test(named(table))).flatMap((table) => table.first.map((row) => of(table, row))));
    found.delete("");
    return found;
  }

  const phases = once(() => new Set([...texts(/^phases-phases$/, phaseOf), ...(nsyswrap.timeline?.phases() ?? [])]));
  const ranges = once(() => texts(RANGE_TABLES, (table, row) => table.text(row, "name")));
  const ranks = once(() => texts(/^ranks-ranks$/, (table, row) => `${table.number(row, "rank")}`));

  /** Return the GPUs of a rank. */
  function gpusOf(rank) {
    const table = nsyswrap.tables.find((one) => named(one) === "ranks-ranks");
    const mine = table ? table.first.filter((row) => `${table.number(row, "rank")}` === rank) : [];
    return new Set(mine.map((row) => table.number(row, "device_id")));
  }

  /** Return what a row selects: its interval, kernel, finding, rank, phase or range; null for nothing. */
  function ofRow(table, row) {
    const span = spanOf(row);
    if (span) return interval(...span);
    const kernel = kernelOf(table, row);
    if (kernel) return plain("kernel", kernel);
    const finding = table.columns.has("rule") && findingOfRule(table.text(row, "rule"));
    if (finding) return plain("finding", finding.id);
    if (named(table) === "ranks-ranks") return plain("rank", `${table.number(row, "rank")}`);
    const phase = phaseOf(table, row);
    if (phase && phases().has(phase)) return plain("phase", phase);
    return RANGE_TABLES.test(named(table)) ? plain("range", table.text(row, "name")) : null;
  }

  const overlaps = ([start, end], selection) => start < selection.end_ns && end > selection.start_ns;
  const isSame = ([start, end], selection) => start === selection.start_ns && end === selection.end_ns;

  /** Return whether a row lies in an interval, or is about a kernel or a pattern of gaps that occurs in it. */
  function isInInterval(table, row, selection, statistics) {
    const span = spanOf(row);
    if (span) return selection.kind === "step" && STEP_TABLES.test(named(table)) ? isSame(span, selection) : overlaps(span, selection);
    const kernel = kernelOf(table, row);
    if (kernel && table.columns.has("range")) return false;
    if (kernel) return statistics?.hasKernel(kernel) ?? false;
    return named(table) === "idle-patterns" && (statistics?.hasPattern(table.text(row, "rule"), table.text(row, "phase")) ?? false);
  }

  function isOfFinding(table, row, { rule, kernels: about }) {
    if (named(table) === "gaps") return piecesOf(row).some(([one]) => one === rule);
    if (named(table) === "phases-phases") return table.text(row, "reasons").split(", ").some((one) => one.startsWith(`${rule} `));
    return table.columns.has("rule") ? table.text(row, "rule") === rule : about.has(kernelOf(table, row));
  }

  function isOfPhase(table, row, phase, statistics) {
    if (named(table) === "gaps") return piecesOf(row).some(([, one]) => one === phase);
    const kernel = kernelOf(table, row);
    const own = phaseOf(table, row);
    return own ? own === phase : Boolean(kernel && !table.columns.has("range") && statistics?.hasKernel(kernel));
  }

  function isOfRank(table, row, rank, gpus) {
    const columns = ["rank", "waiting_rank", "late_rank"].filter((column) => table.columns.has(column));
    if (columns.length) return columns.some((column) => `${table.number(row, column)}` === rank);
    return gpus.has(table.number(row, "device_id"));
  }

  /** Return a function that says whether a row of a table belongs to a selection. */
  function membership(selection, statistics) {
    const { kind, id } = selection;
    const finding = kind === "finding" ? factsOfFinding(id) : null;
    const gpus = kind === "rank" ? gpusOf(id) : null;
    const range = (table, row) => (RANGE_TABLES.test(named(table)) ? table.text(row, "name") : table.text(row, "range")) === id;
    const tests = {
      step: (table, row) => isInInterval(table, row, selection, statistics),
      window: (table, row) => isInInterval(table, row, selection, statistics),
      kernel: (table, row) => kernelOf(table, row) === id,
      finding: (table, row) => isOfFinding(table, row, finding),
      phase: (table, row) => isOfPhase(table, row, id, statistics),
      rank: (table, row) => isOfRank(table, row, id, gpus),
      range,
    };
    return tests[kind] ?? (() => false);
  }

  nsyswrap.things = { shortName, wholeName, plain, interval, ofRow, membership, kernels, findings, findingOfRule, factsOfFinding, ruleOf, steps, phases, ranges, ranks, gpusOf };
})();
