// The timeline in words: lengths of time, what an item is, and the ledger of a stretch.

const TIMES = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];

const CLASS_WORDS = {
  compute: "compute", communication: "exposed communication", copy: "exposed copy", memset: "exposed memset",
  outside: "idle outside the window", tensor: "on tensor cores", simt_eligible: "could use tensor cores, and does not",
  not_eligible: "no matrix work", unknown: "its name does not tell", launch: "in a CUDA call",
  profiler: "the profiler at work", module_load: "loading or compiling code", allocation: "allocating memory",
  blocking_copy: "in a copy that blocks", synchronization: "in a synchronize call", lock: "waiting for a lock",
  wait: "waiting in the operating system", thread_wait: "waiting for another thread", off_cpu: "off the CPU",
  warm_up: "warm-up step", measured: "measured step", sampled: "sampled",
};

/** Return a number with three significant digits. */
function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/** Return a length of time with three significant digits and the unit that fits. */
function duration(ns) {
  if (Math.abs(ns) < 1000 && Number.isInteger(ns)) {
    return `${ns} ns`;
  }
  const [scale, unit] = TIMES.find(([one]) => Math.abs(ns) / one < 999.5) ?? TIMES[3];
  return `${threeDigits(ns / scale)} ${unit}`;
}

/** Return a share with one decimal; what is there never reads as nothing. */
function share(part, whole) {
  const ratio = whole > 0 ? part / whole : 0;
  return ratio > 0 && ratio < 0.0005 ? "<0.1 %" : `${(100 * ratio).toFixed(1)} %`;
}

/** Return a moment in seconds since capture start, with as many decimals as a stretch of that length needs. */
function moment(ns, length) {
  const decimals = Math.min(Math.max(Math.ceil(11 - Math.log10(Math.max(length, 1))), 3), 9);
  return `${(ns / 1e9).toFixed(decimals)} s`;
}

/** Return the text that a detail of an item stands for; numbers count from 1, and 0 is none. */
function textOf(data, name, number) {
  return number > 0 ? (data.texts[name]?.[number - 1] ?? "") : "";
}

/** Return the name of an item. */
function itemName(data, row, item) {
  const detail = (name) => row.details[name]?.[item] ?? 0;
  switch (row.kind) {
    case "stream": return data.kernels[detail("name")]?.[0] ?? "";
    case "thread": return textOf(data, "host_call", detail("host_call")) || CLASS_WORDS[row.classes[row.code[item]]];
    case "python": return textOf(data, "line", detail("line"));
    case "steps": return data.texts.step[detail("step")] ?? "step";
    case "gpu": return gpuWords(data, row.classes[row.code[item]]);
    default: return row.classes[row.code[item]];
  }
}

/** Return what a class of a GPU's time is called: a kind of work, or idle and its cause. */
function gpuWords(data, name) {
  return name in data.causes ? `idle: ${name.replaceAll("_", " ")}` : CLASS_WORDS[name];
}

/** Return what a class of any row is called. */
function classWords(data, row, code) {
  const name = row.classes[code];
  return row.kind === "gpu" ? gpuWords(data, name) : row.kind === "phases" ? name : (CLASS_WORDS[name] ?? name);
}

/** Return the line of Python that was sampled on a thread at a time; of no thread in particular, on the first one. */
function pythonAt(data, thread, time) {
  const row = data.rows.find((one) => one.kind === "python" && (!thread || one.thread === thread));
  const item = row ? itemAt(row, time, 0) : -1;
  return item >= 0 ? itemName(data, row, item) : "";
}

/** Return the phase that is open in a process at a time. */
function phaseAt(data, process, time) {
  const row = data.rows.find((one) => one.kind === "phases" && one.process === process);
  const item = row ? itemAt(row, time, 0) : -1;
  return item >= 0 ? row.classes[row.code[item]] : "";
}

/** Return pairs of label and value about an operation. */
function operationFacts(data, row, item) {
  const detail = (name) => row.details[name][item];
  const [, verdict, precision, library] = data.kernels[detail("name")] ?? [];
  const said = [CLASS_WORDS[verdict], precision, library].filter(Boolean).join(", ");
  const thread = data.threads[detail("thread") - 1];
  const launched = row.start[item] - detail("latency");
  const call = textOf(data, "call", detail("call"));
  const on = thread ? ` on ${thread.label}` : "";
  return [
    ["tensor cores", said],
    ["grid", detail("grid_blocks") ? `${detail("grid_blocks")} blocks of ${detail("block_threads")} threads` : ""],
    ["size", detail("bytes") ? bytesText(detail("bytes")) : ""],
    ["phase", textOf({ texts: { phase: data.phases } }, "phase", detail("phase"))],
    ["launch latency", call ? `${duration(detail("latency"))} after ${call} began${on}` : "its launch is not in the capture"],
    ["Python line", call ? pythonAt(data, thread?.thread, launched) : ""],
  ];
}

/** Return a size in bytes. */
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 3);
  return power ? `${threeDigits(bytes / 1024 ** power)} ${units[power]}` : `${bytes} B`;
}

/** Return pairs of label and value about idle time. */
function idleFacts(data, row, item) {
  const name = row.classes[row.code[item]];
  if (!(name in data.causes)) {
    return [];
  }
  return [
    ["cause", data.causes[name]],
    ["seen", textOf(data, "evidence", row.details.evidence[item])],
    ["phase", textOf({ texts: { phase: data.phases } }, "phase", row.details.phase[item])],
    ["Python line", pythonAt(data, 0, (row.start[item] + row.end[item]) / 2)],
  ];
}

/** Return what is known of an item: its name, its row, and pairs of label and value. */
function describeItem(data, row, item) {
  const length = row.end[item] - row.start[item];
  const facts = [["lasts", duration(length)], ["begins", moment(row.start[item], 1)]];
  if (row.kind === "stream") {
    facts.push(...operationFacts(data, row, item));
  } else if (row.kind === "gpu") {
    facts.push(...idleFacts(data, row, item));
  } else if (row.kind === "thread") {
    facts.push(["state", CLASS_WORDS[row.classes[row.code[item]]]], ["phase", phaseAt(data, row.process, row.start[item])]);
  } else if (row.kind === "steps" && row.code[item] === 1) {
    facts.push(["", "warm-up: not in the window"]);
  }
  return { name: itemName(data, row, item), row: rowName(data, row), facts: facts.filter(([, value]) => value) };
}

/** Return what is known of a stretch of a row of which no single item is there: the share of each class. */
function describeBins(data, row, start, end) {
  const facts = [["stretch", duration(end - start)]];
  if (row.kind === "counter") {
    const mean = meanBetween(row, data.edges, start, end);
    facts.push(["mean", Number.isNaN(mean) ? "not sampled" : `${(mean / 100).toFixed(1)} %`]);
    return { name: row.label, row: rowName(data, row), facts };
  }
  const { taken } = takenBetween(row, data.edges, start, end);
  for (const [code, ns] of taken.entries()) {
    if (ns >= 0.5) {
      facts.push([classWords(data, row, code), `${duration(Math.round(ns))}, ${share(ns, end - start)}`]);
    }
  }
  return { name: row.label, row: facts.length > 1 ? "" : "nothing here", facts };
}

/** Return the name of a row with the GPU it is on. */
function rowName(data, row) {
  return row.device >= 0 && row.kind !== "gpu" ? `GPU ${row.device}, ${row.label}` : row.label;
}

/** Return the ledger of a stretch: for each GPU what each class took, whether exactly, and how wide a bin is. */
function ledgerOf(data, start, end) {
  const gpus = data.rows.filter((row) => row.kind === "gpu");
  const columns = gpus.map((row) => ({ label: row.label, device: row.device, ...takenBetween(row, data.edges, start, end) }));
  const classes = gpus.length ? gpus[0].classes : [];
  const lines = classes
    .map((name, code) => ({ name, words: gpuWords(data, name), ns: columns.map((one) => Math.round(one.taken[code])) }))
    .filter((line) => line.ns.some((ns) => ns > 0));
  const sum = ({ ns }) => ns.reduce((one, other) => one + other, 0);
  const rank = (line) => (line.name in data.causes ? sum(line) : Infinity);
  lines.sort((one, other) => (rank(one) === rank(other) ? 0 : rank(other) - rank(one)));
  const widths = [start, end].map((time) => binAt(data.edges, time)).map((bin) => data.edges[bin + 1] - data.edges[bin]);
  return { columns, lines, exact: columns.every((one) => one.exact), bin: Math.max(...widths) };
}
