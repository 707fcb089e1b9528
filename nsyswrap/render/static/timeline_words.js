// The texts of the timeline: lengths of time, names and details of items, and the breakdown of an interval.

const TIMES = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];

const CLASS_NAMES = {
  compute: "compute", communication: "exposed communication", communication_wait: "waiting for other ranks",
  copy: "exposed copies", memset: "exposed memsets", outside: "idle outside the window", tensor: "on tensor cores",
  simt_eligible: "eligible for tensor cores, not used", not_eligible: "no matrix work",
  unknown: "not clear from the name", launch: "in a CUDA call", profiler: "profiler overhead",
  module_load: "loading or compiling code", allocation: "allocating memory", blocking_copy: "blocked in a copy call",
  synchronization: "blocked in a synchronize call", lock: "waiting for a lock",
  wait: "waiting in the operating system", thread_wait: "waiting for another thread", off_cpu: "waiting for a core",
  garbage_collection: "collecting garbage", file_io: "reading or writing files",
  checkpoint: "saving or loading a checkpoint", tokenizer: "tokenizing", page_fault: "waiting for pages of memory",
  untraced_wait: "not running, system calls not traced",
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

/** Return a share with one decimal; a share above zero never reads as zero. */
function share(part, whole) {
  const ratio = whole > 0 ? part / whole : 0;
  return ratio > 0 && ratio < 0.0005 ? "<0.1 %" : `${(100 * ratio).toFixed(1)} %`;
}

/** Return a time in seconds since capture start, with the decimals that an interval of that length needs. */
function moment(ns, length) {
  const decimals = Math.min(Math.max(Math.ceil(11 - Math.log10(Math.max(length, 1))), 3), 9);
  return `${(ns / 1e9).toFixed(decimals)} s`;
}

/** Return the text with the number of an item's detail; numbers start at 1, and 0 means none. */
function textOf(data, name, number) {
  return number > 0 ? (data.texts[name]?.[number - 1] ?? "") : "";
}

/** Return the name of an item. */
function itemName(data, row, item) {
  const detail = (name) => row.details[name]?.[item] ?? 0;
  switch (row.kind) {
    case "stream": return data.kernels[detail("name")]?.[0] ?? "";
    case "thread": return textOf(data, "host_call", detail("host_call")) || classLabel(data, row, row.code[item]);
    case "python": return textOf(data, "line", detail("line"));
    case "range": return textOf(data, "range", detail("range"));
    case "steps": return data.texts.step[detail("step")] ?? "step";
    case "gpu": return gpuLabel(data, row.classes[row.code[item]]);
    default: return row.classes[row.code[item]];
  }
}

/** Return the name of a rule or a cause; the words of its key where it has none. */
function reasonName(data, name) {
  return data.names[name] ?? CLASS_NAMES[name] ?? name.replace("/", ": ").replaceAll("_", " ");
}

/** Return the label of a class of a GPU's time: a kind of work, or idle time and its reason. */
function gpuLabel(data, name) {
  return isIdle(name) ? `idle: ${reasonName(data, name)}` : (CLASS_NAMES[name] ?? name);
}

/** Return the label of a class of any row. */
function classLabel(data, row, code) {
  const name = row.classes[code];
  return row.kind === "gpu" ? gpuLabel(data, name) : row.kind === "phases" ? name : (CLASS_NAMES[name] ?? name);
}

/** Return the line of Python that was sampled on a thread at a time; without a thread, on the first one. */
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
  const said = [CLASS_NAMES[verdict], precision, library].filter(Boolean).join(", ");
  const thread = data.threads[detail("thread") - 1];
  const launched = row.start[item] - detail("latency");
  const call = textOf(data, "call", detail("call"));
  const on = thread ? ` on ${thread.label}` : "";
  return [
    ["tensor cores", said],
    ["grid", detail("grid_blocks") ? `${detail("grid_blocks")} blocks of ${detail("block_threads")} threads` : ""],
    ["size", detail("bytes") ? bytesText(detail("bytes")) : ""],
    ["phase", textOf({ texts: { phase: data.phases } }, "phase", detail("phase"))],
    ["launch latency", call ? `${duration(detail("latency"))} after ${call} began${on}` : "its launch was not recorded"],
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
  if (!isIdle(name)) {
    return [];
  }
  const numbered = (detail, texts) => (row.details[detail] ? textOf({ texts: { [detail]: texts } }, detail, row.details[detail][item]) : "");
  return [
    ["cause", data.causes[name.replace(/^idle\//, "")] ?? ""],
    ["evidence", numbered("evidence", data.texts.evidence ?? [])],
    ["phase", numbered("phase", data.phases)],
    ["Python line", pythonAt(data, 0, (row.start[item] + row.end[item]) / 2)],
  ];
}

/** Return the description of an item: its name, its row, and pairs of label and value. */
function describeItem(data, row, item) {
  const length = row.end[item] - row.start[item];
  const facts = [["length", duration(length)], ["start", moment(row.start[item], 1)]];
  if (row.kind === "stream") {
    facts.push(...operationFacts(data, row, item));
  } else if (row.kind === "gpu") {
    facts.push(...idleFacts(data, row, item));
  } else if (row.kind === "thread") {
    facts.push(["state", classLabel(data, row, row.code[item])], ["phase", phaseAt(data, row.process, row.start[item])]);
  } else if (row.kind === "steps" && row.code[item] === 1) {
    facts.push(["", "warm-up: not in the window"]);
  }
  return { name: itemName(data, row, item), row: rowName(data, row), facts: facts.filter(([, value]) => value) };
}

/** Return the description of an interval of a row without single items: the share of each class. */
function describeBins(data, row, start, end) {
  const facts = [["interval", duration(end - start)]];
  if (row.kind === "counter") {
    const mean = meanBetween(row, data.edges, start, end);
    facts.push(["mean", Number.isNaN(mean) ? "not sampled" : `${(mean / 100).toFixed(1)} %`]);
    return { name: row.label, row: rowName(data, row), facts };
  }
  const { taken } = takenBetween(row, data.edges, start, end);
  for (const [code, ns] of taken.entries()) {
    if (ns >= 0.5) {
      facts.push([classLabel(data, row, code), `${duration(Math.round(ns))}, ${share(ns, end - start)}`]);
    }
  }
  return { name: row.label, row: facts.length > 1 ? "" : "nothing here", facts };
}

/** Return the name of a row with its GPU. */
function rowName(data, row) {
  return row.device >= 0 && row.kind !== "gpu" ? `GPU ${row.device}, ${row.label}` : row.label;
}

/** Return the breakdown of an interval: the time of each class on each GPU, whether it is exact, and the bin width. */
function ledgerOf(data, start, end) {
  const gpus = data.rows.filter((row) => row.kind === "gpu");
  const columns = gpus.map((row) => ({ label: row.label, device: row.device, ...takenBetween(row, data.edges, start, end) }));
  const classes = gpus.length ? gpus[0].classes : [];
  const lines = classes
    .map((name, code) => ({ name, label: gpuLabel(data, name), ns: columns.map((one) => Math.round(one.taken[code])) }))
    .filter((line) => line.ns.some((ns) => ns > 0));
  const sum = ({ ns }) => ns.reduce((one, other) => one + other, 0);
  const rank = (line) => (isIdle(line.name) ? sum(line) : Infinity);
  lines.sort((one, other) => (rank(one) === rank(other) ? 0 : rank(other) - rank(one)));
  const widths = [start, end].map((time) => binAt(data.edges, time)).map((bin) => data.edges[bin + 1] - data.edges[bin]);
  return { columns, lines, exact: columns.every((one) => one.exact), bin: Math.max(...widths) };
}
