// What a selection holds: its places in the rows of the timeline, its kernels, and its patterns of gaps.

const LONGEST_NAME = 320;
// As tables call it.
const NO_PHASE = "none";

/** Return a kernel's name as the timeline has it: a long one is cut in the middle. */
function elided(name) {
  const letters = [...name];
  const tail = Math.floor(((LONGEST_NAME - 1) * 2) / 5);
  const head = LONGEST_NAME - 1 - tail;
  return letters.length <= LONGEST_NAME ? name : `${letters.slice(0, head).join("")}…${letters.slice(-tail).join("")}`;
}

/** Return whether a class of a stream's row is a kernel, not a copy or a memset. */
function isKernel(name) {
  return name !== "copy" && name !== "memset";
}

/** Return a function that says whether an item of a row belongs to a selection; null where no item of the row can. */
function itemTest(data, row, { kind, id }, finding) {
  const { code, details } = row;
  const kernels = kind === "kernel" ? new Set([id]) : (finding?.kernels ?? new Set());
  if (row.kind === "stream" && kernels.size) {
    const numbers = new Set([...kernels].map(elided));
    const chosen = new Set(data.kernels.flatMap(([name], number) => (numbers.has(name) ? [number] : [])));
    return chosen.size ? (item) => chosen.has(details.name[item]) : null;
  }
  if (row.kind === "gpu" && kind === "finding") {
    const mine = row.classes.map((name) => isIdle(name) && reasonName(data, name) === finding.rule);
    return mine.includes(true) ? (item) => mine[code[item]] : null;
  }
  if (kind !== "phase") {
    return null;
  }
  const number = id === NO_PHASE ? 0 : data.phases.indexOf(id) + 1 || -1;
  if (row.kind === "phases") {
    const mine = row.classes.indexOf(id);
    return mine < 0 ? null : (item) => code[item] === mine;
  }
  const idle = row.classes.map((name) => row.kind === "stream" || (isIdle(name) && name !== "outside"));
  const isNumbered = ["stream", "gpu"].includes(row.kind) && number >= 0 && details.phase;
  return isNumbered ? (item) => details.phase[item] === number && idle[code[item]] : null;
}

/** Return the items of each row that belong to a selection; rows that have none are left out. */
function placesOf(data, selection, finding) {
  const found = new Map();
  for (const row of data.rows) {
    const test = itemTest(data, row, selection, finding);
    const items = test ? Array.from(row.start.keys()).filter(test) : [];
    if (items.length) {
      found.set(row, items);
    }
  }
  return found;
}

/** Return the share of an interval in which a row has all its items. */
function exactShare(row, edges, start, end) {
  let exact = 0;
  for (let bin = binAt(edges, start); bin <= binAt(edges, end); bin += 1) {
    exact += row.isExact[bin] ? Math.max(Math.min(edges[bin + 1], end) - Math.max(edges[bin], start), 0) : 0;
  }
  return end > start ? exact / (end - start) : 1;
}

/** Call a function with each item of a row that reaches into an interval, and with the time of it that lies inside. */
function eachInside(row, edges, start, end, act) {
  const last = lastNotAbove(row.start, end);
  for (let item = row.first[binAt(edges, start)]; item <= last; item += 1) {
    const inside = Math.min(row.end[item], end) - Math.max(row.start[item], start);
    if (inside > 0) {
      act(item, inside);
    }
  }
}

/** Add a length of time to the entry of a key. */
function addTo(found, key, entry, ns) {
  const there = found.get(key) ?? { ...entry, ns: 0, lengths: [] };
  there.ns += ns;
  there.lengths.push(ns);
  found.set(key, there);
}

/** Return entries, most time first, with their number and their median length. */
function ranked(found) {
  const median = (lengths) => {
    const sorted = Float64Array.from(lengths).sort();
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };
  const entries = [...found.values()].map(({ lengths, ...entry }) => ({ ...entry, count: lengths.length, median: median(lengths) }));
  return entries.sort((one, other) => other.ns - one.ns);
}

/** Return the kernels of some rows in an interval, those of a test where one is given. */
function kernelsIn(data, rows, start, end, test) {
  const found = new Map();
  for (const row of rows) {
    eachInside(row, data.edges, start, end, (item, ns) => {
      const name = data.kernels[row.details.name[item]]?.[0] ?? "";
      if (isKernel(row.classes[row.code[item]]) && (!test || test(row, item))) {
        addTo(found, name, { name }, ns);
      }
    });
  }
  return ranked(found);
}

/** Call a function with each gap of a row in an interval: its idle time by rule and phase, and where it ends. */
function eachGap(data, row, start, end, act) {
  let gap = new Map();
  let until = NaN;
  const close = () => { if (gap.size) act(gap, until); };
  eachInside(row, data.edges, start, end, (item, ns) => {
    const name = row.classes[row.code[item]];
    if (!isIdle(name) || name === "outside") {
      return;
    }
    if (row.start[item] !== until) {
      close();
      gap = new Map();
    }
    until = row.end[item];
    const [rule, phase] = [reasonName(data, name), data.phases[row.details.phase[item] - 1] ?? NO_PHASE];
    const key = `${rule}\n${phase}`;
    gap.set(key, { rule, phase, ns: (gap.get(key)?.ns ?? 0) + ns });
  });
  close();
}

/** Return the patterns of the gaps of some rows in an interval; those whose end passes the test, where one is given. */
function gapsIn(data, rows, start, end, test) {
  const found = new Map();
  for (const row of rows) {
    eachGap(data, row, start, end, (gap, until) => {
      for (const [key, { rule, phase, ns }] of !test || test(row, until) ? gap : []) {
        addTo(found, key, { rule, phase }, ns);
      }
    });
  }
  return ranked(found);
}

/** Return a function that says whether one of the items of a selection begins at a time, on the GPU of a row. */
function beginsAt(places) {
  const starts = new Map();
  for (const [row, items] of places) {
    const mine = starts.get(row.device) ?? new Set();
    items.forEach((item) => mine.add(row.start[item]));
    starts.set(row.device, mine);
  }
  return (row, time) => starts.get(row.device)?.has(time) ?? false;
}

/** Return a function that says whether an item begins where a gap ends that holds idle time of a rule. */
function beginsAfter(data, rows, start, end, rule) {
  const ends = new Map();
  for (const row of rows) {
    const mine = ends.get(row.device) ?? new Set();
    ends.set(row.device, mine);
    eachGap(data, row, start, end, (gap, until) => {
      if ([...gap.values()].some((one) => one.rule === rule)) mine.add(until);
    });
  }
  return (row, item) => ends.get(row.device)?.has(row.start[item]) ?? false;
}

/** Return a sentence about the part of an interval for which single operations are there; empty for all of it. */
function partNote(data, rows, start, end) {
  const least = Math.min(1, ...rows.map((row) => exactShare(row, data.edges, start, end)));
  return least > 0.9999 ? "" : `From ${share(least, 1)} of this time: for the rest, the page has sums only.`;
}

/** Return what the GPUs did in an interval, as label and value. */
function busyFacts(data, start, end) {
  const { columns, lines } = ledgerOf(data, start, end);
  const idle = columns.map((_, at) => lines.filter((line) => isIdle(line.name)).reduce((sum, line) => sum + line.ns[at], 0));
  return columns.map(({ label }, at) => [`${label} idle`, share(idle[at], end - start)]);
}

/** Return the kernels and the patterns of gaps of a selection, with what limits them. */
function statisticsOf(data, selection, { finding, gpus, places }) {
  const [start, end] = selection.start_ns === null ? data.window : [selection.start_ns, selection.end_ns];
  const ofGpu = (kind) => data.rows.filter((row) => row.kind === kind && (!gpus || gpus.has(row.device)));
  const [streams, devices] = [ofGpu("stream"), ofGpu("gpu")];
  const { kind } = selection;
  const mine = new Map([...places].map(([row, items]) => [row, new Set(items)]));
  const isMine = (row, item) => mine.get(row)?.has(item) ?? false;
  const isOfKernels = kind === "kernel" || Boolean(finding?.kernels.size);
  const isInterval = selection.start_ns !== null || kind === "rank";
  const isOfGaps = kind === "finding" && !isOfKernels;
  const test = isInterval ? null : isOfGaps ? beginsAfter(data, devices, start, end, finding.rule) : isMine;
  const kernels = kernelsIn(data, streams, start, end, test);
  const gaps = isInterval || isOfKernels ? gapsIn(data, devices, start, end, isOfKernels ? beginsAt(places) : null) : [];
  const names = new Set(kernels.map(({ name }) => name));
  const patterns = new Set(gaps.map(({ rule, phase }) => `${rule}\n${phase}`));
  return {
    kernels, gaps, isInterval, isOfKernels, isOfGaps, hasPlaces: places.size > 0 || kind === "step",
    facts: selection.start_ns === null ? [] : [["length", duration(end - start)], ["start", moment(start, end - start)], ...busyFacts(data, start, end)],
    note: partNote(data, [...streams, ...devices], start, end),
    hasKernel: (name) => names.has(elided(name)),
    hasPattern: (rule, phase) => patterns.has(`${rule}\n${phase}`),
  };
}
