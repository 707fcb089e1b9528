// The colours of the timeline by class: variables of the style sheet, which has their values. HUES is written by Python.

const BUSY_COLOURS = HUES.gpu;
const STRIPED = { stream: new Set(["unknown"]), steps: new Set(["warm_up"]) };

/** Return whether a class of a GPU's row is idle time inside the window: a cause, or the rule of a finding. */
function isIdle(name) {
  return !Object.hasOwn(BUSY_COLOURS, name);
}

/** Return the hue of idle time of a rule or a cause; of an unknown one, that of other idle time. */
function idleHue(name) {
  return HUES.rules[name] ?? HUES.causes[name] ?? "idle-other";
}

/** Return the hue of a class, by the kind of its row; the style sheet has a variable of this name. */
function hueOf(kind, name) {
  const known = HUES[kind] && Object.hasOwn(HUES[kind], name) ? HUES[kind][name] : null;
  return known ?? (kind === "gpu" && isIdle(name) ? idleHue(name) : kind === "phases" ? "phase-other" : "neutral");
}

/** Return the variable that colours a class, by the kind of its row. */
function colourOf(kind, name) {
  return `--${hueOf(kind, name)}`;
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

/** Return whether white text on a colour has more contrast than black text; the better one has at least 4.58. */
function isDark(colour) {
  const [red, green, blue] = colour.map((one) => (one <= 10.31 ? one / 3294.6 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05;
}
