// What the colours of the timeline mean, and the colours themselves, which the style sheet has.

// The variable of the style sheet that colours a class, by kind of row.
const IDLE_FAMILIES = {
  data_wait: "--idle-input", data_work: "--idle-input", cpu: "--idle-host", lock: "--idle-host",
  off_cpu: "--idle-host", launch: "--idle-launch", queued: "--idle-launch", synchronization: "--idle-wait",
  blocking_copy: "--idle-wait", module_load: "--idle-setup", allocation: "--idle-setup", profiler: "--idle-other",
  unknown: "--idle-other", blind: "--idle-other", peer_wait: "--idle-other",
};
const COLOURS = {
  gpu: { compute: "--compute", communication: "--communication", copy: "--copy", memset: "--fill", ...IDLE_FAMILIES },
  stream: {
    tensor: "--compute", simt_eligible: "--eligible", not_eligible: "--plain-kernel", unknown: "--plain-kernel",
    communication: "--communication", copy: "--copy", memset: "--fill",
  },
  phases: {
    batch: "--line", data: "--idle-input", copy: "--copy", forward: "--eligible", backward: "--compute",
    optimizer: "--communication",
  },
  steps: { measured: "--plain-kernel", warm_up: "--fill" },
  thread: { ...IDLE_FAMILIES, lock: "--waiting", wait: "--waiting", thread_wait: "--waiting", off_cpu: "--waiting" },
  python: { sampled: "--plain-kernel" },
};
const STRIPED = { gpu: new Set(Object.keys(IDLE_FAMILIES)), stream: new Set(["unknown"]), steps: new Set(["warm_up"]) };

// Stripes are two tints: how much of the page's colour is in each.
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

/** Return the variable that colours a class of a row. */
function colourName(row, name) {
  return COLOURS[row.kind]?.[name] ?? "--fill";
}
