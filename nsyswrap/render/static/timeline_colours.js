// The colours of the timeline by class; the style sheet has their values.

// What a GPU does while it is busy, by class: its variable of the style sheet.
const BUSY_COLOURS = {
  compute: "--compute", communication: "--communication", communication_wait: "--rank-wait", copy: "--copy",
  memset: "--neutral",
};
// Families of idle time by cause, and by the first part of a rule's key.
const CAUSE_COLOURS = {
  data_wait: "--idle-data", data_work: "--idle-data", cpu: "--idle-cpu", lock: "--idle-cpu", off_cpu: "--idle-cpu",
  garbage_collection: "--idle-cpu", file_io: "--idle-data", launch: "--idle-launch", queued: "--idle-launch",
  synchronization: "--idle-wait", blocking_copy: "--idle-wait", module_load: "--idle-setup",
  allocation: "--idle-setup", profiler: "--idle-other", unknown: "--idle-other", not_traced: "--idle-other",
  peer_wait: "--idle-other",
};
const RULE_COLOURS = {
  data: "--idle-data", steps: "--idle-cpu", launches: "--idle-launch", optimizer: "--idle-launch",
  gpu: "--idle-launch", host: "--idle-cpu", synchronization: "--idle-wait", copies: "--idle-wait", modules: "--idle-setup",
  memory: "--idle-setup", capture: "--idle-other",
};
const COLOURS = {
  stream: {
    tensor: "--compute", simt_eligible: "--eligible", not_eligible: "--plain-kernel", unknown: "--plain-kernel",
    communication: "--communication", copy: "--copy", memset: "--neutral",
  },
  phases: {
    batch: "--line", data: "--idle-data", copy: "--copy", forward: "--eligible", backward: "--compute",
    optimizer: "--communication",
  },
  steps: { measured: "--plain-kernel", warm_up: "--neutral" },
  thread: { ...CAUSE_COLOURS, lock: "--waiting", wait: "--waiting", thread_wait: "--waiting", off_cpu: "--waiting",
    checkpoint: "--idle-data", tokenizer: "--idle-data" },
  python: { sampled: "--plain-kernel" },
};
const STRIPED = { stream: new Set(["unknown"]), steps: new Set(["warm_up"]) };

/** Return whether a class of a GPU's row is idle time inside the window: a cause, or the rule of a finding. */
function isIdle(name) {
  return !Object.hasOwn(BUSY_COLOURS, name) && name !== "outside";
}

/** Return the variable that colours idle time of a rule or a cause; of an unknown one, that of other idle time. */
function idleColour(name) {
  const [first, rest] = name.split("/");
  const colour = rest === undefined || first === "idle" ? CAUSE_COLOURS[rest ?? first] : RULE_COLOURS[first];
  return colour ?? "--idle-other";
}

/** Return the variable that colours a class, by the kind of its row. */
function colourOf(kind, name) {
  if (kind === "gpu") {
    return isIdle(name) ? idleColour(name) : (BUSY_COLOURS[name] ?? "--neutral");
  }
  return COLOURS[kind]?.[name] ?? "--neutral";
}

/** Return whether a class is drawn with stripes, by the kind of its row. */
function isStriped(kind, name) {
  return kind === "gpu" ? isIdle(name) : Boolean(STRIPED[kind]?.has(name));
}

// Stripes are two tints: how much of the page's colour each one holds.
const STRIPES = [0.25, 0.55];

/** Return the colours of the page as numbers for a pixel buffer and as texts, read from the style sheet. */
function readPalette(element) {
  const style = getComputedStyle(element);
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgb = (name) => {
    if (!known.has(name)) {
      probe.fillStyle = style.getPropertyValue(name).trim() || "#888888";
      probe.fillRect(0, 0, 1, 1);
      known.set(name, [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
    }
    return known.get(name);
  };
  return { rgb, text: (name) => `rgb(${rgb(name).join(" ")})`, font: style.fontFamily };
}

/** Return a colour as one number of a pixel buffer. */
function pixel([red, green, blue]) {
  return (255 << 24) | (blue << 16) | (green << 8) | red;
}

/** Return a colour between two. */
function mixed(one, other, part) {
  return one.map((value, i) => Math.round(value * (1 - part) + other[i] * part));
}

/** Return whether text on a colour is to be light. */
function isDark([red, green, blue]) {
  return red * 0.299 + green * 0.587 + blue * 0.114 < 150;
}
