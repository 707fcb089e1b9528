// Draws one step as lanes: what the CPU and the GPU did, one lane for each account, and where findings lie. The height of
// a colour is its share of its column, so its area is its time, and nothing is drawn wider than it is:
//
//     items     |##|  |###||#|      |####|
//     columns  |    |    |    |    |    |
//     heights    .5   .7   .4   0    .9

// Columns of a whole drawing, about the pixels of a wide page, and the height of a full one in the units of a path.
const STEP_COLUMNS = 1200;
const STEP_UNITS = 20;
// Time of one class that is fewer columns apart than this belongs together: a letter is as wide.
const STEP_APART = 8;
// Pixels: the line above a lane, the space below it, the axis, and the lanes of phases and threads.
const [STEP_HEAD, STEP_BELOW, STEP_AXIS, PHASES_HEIGHT, THREAD_HEIGHT] = [17, 7, 22, 22, 12];
const MOST_STEP_THREADS = 2;
const MOST_ARROWS = 3;
// Arrows start at least this share of the drawing apart, and are at least this long.
const [ARROWS_APART, SHORTEST_ARROW] = [0.08, 0.004];
// Lanes of GPU time: key, name, the classes in it (none: all idle time) and the height of its bar.
const GPU_LANES = [
  ["compute", "compute", ["compute"], 22],
  ["communication", "exposed communication", ["communication", "communication_wait"], 20],
  ["copies", "exposed copies", ["copy", "memset"], 16],
  ["idle", "idle, by reason", [], 26],
];
// What a thread does: hue, words, and the classes of its row.
const THREAD_STATES = [
  ["idle-launch", "in CUDA calls", ["launch"]],
  ["idle-wait", "blocked in CUDA calls", ["synchronization", "blocking_copy"]],
  ["waiting", "waiting", ["lock", "wait", "thread_wait", "off_cpu", "untraced_wait", "peer_wait"]],
];
// Pixels of the drawing on a wide and on a narrow page, of a letter, of half a circle, and around a text.
const STEP_WIDTHS = [["wide", 960], ["narrow", 340]];
const STEP_LETTER = 7.6;
const STEP_HALF = 9;
const STEP_SPACE = 6;
const STEP_NUDGES = 15;
const STEP_NUDGE = 4;
const STEP_TICKS = 6;

/** Return an element of a drawing. */
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Return the bounds of equal columns of an interval. */
function stepEdges(start, end, count) {
  return Float64Array.from({ length: count + 1 }, (_, i) => start + Math.floor((i * (end - start)) / count));
}

/** Return how many ns each class of a row takes of each column, by class; only classes that take any. */
function stepTaken(row, edges, columns) {
  const found = new Map([...row.before.keys()].map((code) => [code, new Float64Array(columns.length - 1)]));
  let before = new Float64Array(row.classes.length);
  let after = new Float64Array(row.classes.length);
  takenBefore(row, edges, binAt(edges, columns[0]), columns[0], before);
  const first = Float64Array.from(before, Math.floor);
  for (let x = 0; x + 1 < columns.length; x += 1) {
    takenBefore(row, edges, binAt(edges, columns[x + 1]), columns[x + 1], after);
    for (const [code, sums] of found) {
      sums[x] = Math.floor(after[code]) - Math.floor(before[code]);
    }
    [before, after] = [after, before];
  }
  const taken = [...found].filter(([code]) => Math.floor(before[code]) > first[code]);
  return new Map(taken.map(([code, sums]) => [row.classes[code], sums]));
}

/** Return the sum of numbers. */
function total(numbers) {
  return numbers.reduce((one, other) => one + other, 0);
}

/** Return the upper edge of each layer in each column, in units; the first layer is at the bottom. */
function stepHeights(layers, widths) {
  const above = new Float64Array(widths.length);
  return layers.map((layer) => widths.map((width, x) => {
    above[x] += layer[x];
    return Math.min(Math.floor((2 * STEP_UNITS * above[x] + width) / (2 * width)), STEP_UNITS);
  }));
}

/** Return a layer as a path from the base line; lower layers are drawn over it. */
function stepOutline(bottom, top) {
  const parts = [`M0 ${STEP_UNITS}`];
  let [height, moved, any] = [0, 0, false];
  for (let x = 0; x < top.length; x += 1) {
    const value = top[x] > bottom[x] ? top[x] : 0;
    if (value !== height) {
      parts.push(moved ? `h${moved}` : "", `v${height - value}`);
      [height, moved, any] = [value, 0, true];
    }
    moved += 1;
  }
  return any ? [...parts, `h${moved}`, `V${STEP_UNITS}z`].join("") : "";
}

/** Return the columns that hold most of a layer's time. */
function stepCluster(layer) {
  const groups = [];
  layer.forEach((ns, x) => {
    const last = groups[groups.length - 1];
    if (ns > 0 && last && x - last.at[last.at.length - 1] <= STEP_APART) {
      last.at.push(x);
      last.ns += ns;
    } else if (ns > 0) {
      groups.push({ at: [x], ns });
    }
  });
  const best = groups.reduce((one, other) => (other.ns > one.ns ? other : one));
  let sum = 0;
  const middle = best.at.find((x) => (sum += layer[x]) * 2 >= best.ns);
  return { first: best.at[0], last: best.at[best.at.length - 1] + 1, middle: middle + 0.5 };
}

/** Return marks on a page of one width: texts that fit, and circles moved to where they are free. */
function stepMarksOn(wanted, columns, fits, width) {
  const taken = [];
  const isFree = (start, end) => taken.every(([first, last]) => end <= first || start >= last);
  const marks = [];
  const put = (one, x, from, to, more) => {
    taken.push([from, to]);
    marks.push({ ...one, fits, x: ((100 * x) / width).toFixed(2), text: "", plate: 0, dx: 0, textDx: 0, ...more });
  };
  for (const one of wanted) {
    const [left, right] = [one.cluster.first, one.cluster.last].map((x) => (x / columns) * width);
    const before = one.number ? 2 * STEP_HALF + STEP_SPACE : STEP_SPACE;
    const plates = one.texts.map((text) => [text, before + Math.round(STEP_LETTER * text.length) + STEP_SPACE]);
    const fit = plates.find(([, plate]) => left + plate + STEP_SPACE <= right && isFree(left, left + plate));
    if (fit) {
      put(one, left, left, left + fit[1], { text: fit[0], plate: fit[1], dx: STEP_HALF + 2, textDx: before + 2 });
      continue;
    }
    for (let n = 0; one.number && n <= 2 * STEP_NUDGES; n += 1) {
      const moved = (one.cluster.middle / columns) * width + (n % 2 ? -1 : 1) * Math.floor((n + 1) / 2) * STEP_NUDGE;
      const at = Math.min(Math.max(moved, STEP_HALF), width - STEP_HALF);
      if (isFree(at - STEP_HALF, at + STEP_HALF)) {
        put(one, at, at - STEP_HALF, at + STEP_HALF, {});
        break;
      }
    }
  }
  return marks;
}

/** Return layers with the largest first. */
function largestFirst(layers) {
  const keyed = layers.map((layer) => ({ ...layer, ns: total(layer.sums) }));
  return keyed.sort((one, other) => other.ns - one.ns || (one.key < other.key ? -1 : 1));
}

/** Return a lane: its layers from the bottom, and its marks. */
function stepLane(kind, layers, widths, wanted, columns) {
  const ordered = largestFirst(layers);
  const tops = stepHeights(ordered.map(({ sums }) => sums), widths);
  const paths = tops.map((top, at) => stepOutline(at ? tops[at - 1] : new Float64Array(top.length), top));
  const parts = ordered.map((layer, at) => ({ ...layer, path: paths[at] })).filter(({ path }) => path).reverse();
  const ns = total(ordered.map((layer) => layer.ns));
  return { ...kind, ns, parts, marks: STEP_WIDTHS.flatMap(([fits, width]) => stepMarksOn(wanted, columns, fits, width)) };
}

/** Return the mark of a class: with its time, or its name alone. */
function stepWanted(name, sums, finding) {
  const time = duration(total(sums));
  const [number, anchor] = finding ? [`${finding.number}`, finding.anchor] : ["", ""];
  return { cluster: stepCluster(sums), number, texts: [`${name} ${time}`, name], anchor, title: `${name}: ${time}` };
}

/** Return the rows of one kind of a process. */
function rowsOf(data, kind, process) {
  return data.rows.filter((row) => row.kind === kind && row.process === process);
}

/** Return the measured steps inside the window as items of their row, the fastest first. */
function stepsOf(data, gpu) {
  // Ranks step together, so the first row of steps stands for a process without one.
  const row = rowsOf(data, "steps", gpu.process)[0] ?? data.rows.find(({ kind }) => kind === "steps");
  if (!row) {
    return { row: null, order: [] };
  }
  const [from, to] = data.window;
  const length = (at) => row.end[at] - row.start[at];
  const middle = (at) => row.start[at] + Math.floor(length(at) / 2);
  const inside = [...row.start.keys()].filter((at) => row.code[at] !== 1 && middle(at) >= from && middle(at) < to && length(at) > 0);
  return { row, order: inside.sort((one, other) => length(one) - length(other) || row.start[one] - row.start[other]) };
}

/** Return the interval that the timeline opens on: the typical step and its neighbours, else the window. */
function openingView(data) {
  const gpu = data.rows.find(({ kind }) => kind === "gpu");
  const { row, order } = gpu ? stepsOf(data, gpu) : { order: [] };
  if (!order.length) {
    return { start: data.window[0], end: data.window[1] };
  }
  const at = order[(order.length - 1) >> 1];
  const last = row.start.length - 1;
  return { start: row.start[Math.max(at - 1, 0)], end: row.end[Math.min(at + 1, last)] };
}

/** Return the lanes of the host: phases, and the threads that launch most. */
function hostLanes(data, say, process, columns, widths, whole) {
  const lanes = [];
  const phases = rowsOf(data, "phases", process);
  for (const row of phases) {
    const layers = [...stepTaken(row, data.edges, columns)].map(([key, sums]) => ({ key, hue: hueOf("phases", key), sums }));
    if (layers.length) {
      const wanted = largestFirst(layers).filter(({ key }) => key !== "batch").map(({ key, sums }) => stepWanted(key, sums));
      const kind = { key: "phases", name: say.inferred ? "phases, inferred" : "phases", height: PHASES_HEIGHT, row };
      lanes.push({ ...stepLane(kind, layers, widths, wanted, whole), amounts: [] });
    }
  }
  const main = new Set(phases.map(({ thread }) => thread));
  const threads = rowsOf(data, "thread", process);
  threads.sort((one, other) => main.has(other.thread) - main.has(one.thread));
  for (const row of threads) {
    const layers = [...stepTaken(row, data.edges, columns)].map(([key, sums]) => ({ key, hue: hueOf("thread", key), sums }));
    if (layers.length && lanes.filter(({ isThread }) => isThread).length < MOST_STEP_THREADS) {
      const name = row.label.slice(row.label.lastIndexOf(", ") + 1).trim();
      const kind = { key: `thread-${row.thread}`, name, height: THREAD_HEIGHT, row, isThread: true };
      lanes.push({ ...stepLane(kind, layers, widths, [], whole), amounts: threadTimes(layers) });
    }
  }
  return lanes;
}

/** Return how long a thread was in CUDA calls, and how long it could not go on. */
function threadTimes(layers) {
  const time = (keys) => total(layers.filter(({ key }) => keys.includes(key)).map(({ sums }) => total(sums)));
  const timed = THREAD_STATES.map(([hue, words, keys]) => ({ hue, words, ns: time(keys) })).filter(({ ns }) => ns > 0);
  return timed.map(({ hue, words, ns }) => ({ hue, text: `${duration(ns)} ${words}` }));
}

/** Return the time of kernels of one class in each column; null where none ran. */
function kernelTime(data, streams, name, columns) {
  const found = streams.map((row) => stepTaken(row, data.edges, columns).get(name)).filter(Boolean);
  return found.length ? found.reduce((one, other) => one.map((ns, x) => ns + other[x])) : null;
}

/** Return the findings that have time in a step, with their time in each column; their numbers have no holes. */
function stepFindings(data, say, gpu, streams, columns, taken) {
  return say.findings
    .filter(({ devices }) => !devices.length || devices.includes(gpu.device))
    .map((one) => ({ ...one, sums: one.place[0] === "stream" ? kernelTime(data, streams, one.place[1], columns) : taken.get(one.place[1]) }))
    .filter(({ sums }) => sums)
    .map((one, at) => ({ ...one, number: at + 1 }));
}

/** Return the lanes of a GPU; together they hold each nanosecond of the step once. */
function gpuLanes(data, gpu, taken, findings, widths, whole) {
  const work = new Set(GPU_LANES.flatMap(([, , classes]) => classes));
  const pinned = new Set(findings.map(({ place }) => place[1]));
  const lanes = [];
  for (const [key, name, classes, height] of GPU_LANES) {
    const names = (classes.length ? classes : [...taken.keys()].filter((one) => !work.has(one))).filter((one) => taken.has(one));
    const layers = names.map((one) => ({ key: one, hue: hueOf("gpu", one), sums: taken.get(one) }));
    const here = findings.filter(({ place }) => names.includes(place[1]) || (place[0] === "stream" && key === "compute"));
    const rest = largestFirst(layers).filter((layer) => key === "idle" && !pinned.has(layer.key));
    const wanted = [
      ...here.map((one) => stepWanted(one.name, one.sums, one)),
      ...rest.map((layer) => stepWanted(reasonName(data, layer.key), layer.sums)),
    ];
    if (layers.length) {
      const lane = stepLane({ key, name, height, row: gpu }, layers, widths, wanted, whole);
      lanes.push({ ...lane, amounts: [{ hue: "", text: `${duration(lane.ns)} · ${share(lane.ns, total(widths))}` }] });
    }
  }
  return lanes;
}

/** Return the kernels of a step that waited longest from launch to start, some way apart. */
function stepArrows(data, streams, lanes, span, scale) {
  const compute = lanes.find(({ key }) => key === "compute");
  const others = new Set(["communication", "copy", "memset"]);
  const found = [];
  for (const row of compute ? streams : []) {
    for (let at = Math.max(lastNotAbove(row.start, span.start), 0); at < row.start.length && row.start[at] < span.end; at += 1) {
      const thread = data.threads[row.details.thread[at] - 1];
      const lane = thread && lanes.find((one) => one.row === thread);
      const wait = row.details.latency[at];
      if (lane && wait > 0 && row.start[at] - wait >= span.start && wait >= SHORTEST_ARROW * scale && !others.has(row.classes[row.code[at]])) {
        found.push({ wait, start: row.start[at], lane, compute });
      }
    }
  }
  found.sort((one, other) => other.wait - one.wait || one.start - other.start);
  const shown = [];
  for (const one of found) {
    if (shown.length < MOST_ARROWS && shown.every(({ start }) => Math.abs(start - one.start) >= ARROWS_APART * scale)) {
      shown.push(one);
    }
  }
  return shown;
}

/** Return all that is drawn of one step on a scale of `scale` ns. */
function stepModel(data, say, gpu, span, scale) {
  const length = span.end - span.start;
  const whole = Math.min(STEP_COLUMNS, scale);
  const columns = stepEdges(span.start, span.end, Math.max(Math.round((whole * length) / scale), 1));
  const widths = Array.from(columns.subarray(1), (edge, x) => edge - columns[x]);
  const streams = data.rows.filter((row) => row.kind === "stream" && row.device === gpu.device);
  const taken = stepTaken(gpu, data.edges, columns);
  const findings = stepFindings(data, say, gpu, streams, columns, taken);
  const lanes = [
    ...hostLanes(data, say, gpu.process, columns, widths, whole),
    ...gpuLanes(data, gpu, taken, findings, widths, whole),
  ];
  let top = 0;
  for (const lane of lanes) {
    lane.y = top + STEP_HEAD;
    top += STEP_HEAD + lane.height + STEP_BELOW;
  }
  const arrows = stepArrows(data, streams, lanes, span, scale);
  const place = findings.find(({ anchor }) => anchor === say.problem)?.place ?? [];
  // Kernels of all kinds are one layer of the lane of a GPU.
  const problem = place[0] === "stream" ? "compute" : place[1];
  return { span, scale, problem, lanes, arrows, findings, streams, columns: widths.length, part: length / scale, height: top + STEP_AXIS };
}

/** Return times of the axis, from the start of the step. */
function stepTicks(length) {
  const power = 10 ** Math.max(`${Math.max(Math.floor(length / STEP_TICKS), 1)}`.length - 1, 0);
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one * STEP_TICKS >= length);
  const [scale, unit] = [...TIMES].reverse().find(([size]) => size <= step);
  const count = Math.ceil(length / step);
  return Array.from({ length: count }, (_, n) => ({ x: (100 * n * step) / length, text: n ? `${(n * step) / scale} ${unit}` : "0", fits: n % 2 ? "wide" : "" }))
    .filter(({ x }) => x <= 95);
}

/** Return the drawing of a mark. */
function markDrawing(one, lane) {
  const group = drawn("svg", { class: one.fits, x: `${one.x}%`, y: lane.y + (lane.height >> 1), width: 1, height: 1, overflow: "visible" });
  if (one.plate && lane.key !== "phases") {
    group.append(drawn("rect", { class: "st-plate", x: 2, y: -8, width: one.plate, height: 16, rx: 8 }));
  }
  if (one.number) {
    const label = `${one.number}: ${one.title}`;
    group.append(drawn("a", { href: `#${one.anchor}`, tabindex: -1, "aria-label": label },
      drawn("circle", { cx: one.dx, r: 12, opacity: 0 }),
      drawn("circle", { class: "st-pin", cx: one.dx, r: 8 }),
      drawn("text", { class: "st-number", x: one.dx, y: 4, "font-size": 12, "text-anchor": "middle" }, one.number)));
  }
  if (one.text) {
    group.append(drawn("text", { class: "st-name", x: one.textDx, y: 4, "font-size": 12 }, one.text));
  }
  return group;
}

/** Return the drawing of a lane: its name, its time and its colours. */
function laneDrawing(lane, model) {
  const { y, height } = lane;
  const amounts = lane.amounts.flatMap(({ hue, text }) => [
    ...(hue ? [drawn("tspan", { class: `h-${hue} wide`, dx: 10 }, "■")] : []),
    drawn("tspan", { class: `st-amount${hue ? " wide" : ""}`, dx: hue ? 4 : 8 }, text),
  ]);
  const found = [drawn("text", { class: "st-head", y: y - 5, "font-size": 12 }, lane.name, ...amounts)];
  const width = `${100 * model.part}%`;
  const isQuiet = (part) => Boolean(model.problem) && lane.row?.kind === "gpu" && part.key !== model.problem;
  if (lane.key !== "idle") {
    found.push(drawn("rect", { class: "st-ground", y, width, height }));
  }
  const box = { y, width, height, viewBox: `0 0 ${model.columns} ${STEP_UNITS}`, preserveAspectRatio: "none" };
  found.push(drawn("svg", box, ...lane.parts.map((part) => drawn("path", { class: `h-${part.hue}${isQuiet(part) ? " st-quiet" : ""}`, d: part.path }))));
  if (lane.key === "idle") {
    found.push(drawn("rect", { y, width, height, fill: "url(#stripes)", "pointer-events": "none" }));
  }
  return found;
}

/** Return an arrow from a launch to the start of its kernel. */
function arrowDrawing({ wait, start, lane, compute }, { span, scale }) {
  const x = (time) => `${((100 * (time - span.start)) / scale).toFixed(2)}%`;
  const line = drawn("line", { x1: x(start - wait), y1: lane.y + lane.height, x2: x(start), y2: compute.y });
  const tip = drawn("svg", { x: x(start), y: compute.y, width: 1, height: 1, overflow: "visible" }, drawn("path", { d: "M-3.5 -6H3.5L0 0Z" }));
  return drawn("g", { class: "st-arrow wide" }, line, tip);
}

/** Return the whole drawing of a step. */
function stepDrawing(model) {
  const timed = model.lanes.filter((lane) => lane.amounts.length && !lane.isThread);
  const words = timed.map(({ name, amounts }) => `${name} ${amounts[0].text}`);
  const label = `A step of ${duration(model.span.end - model.span.start)}: ${words.join(", ")}`;
  const drawing = drawn("svg", { class: "st", width: "100%", height: model.height, role: "group", "aria-label": label });
  for (const [n, tick] of stepTicks(model.scale).entries()) {
    const x = `${tick.x.toFixed(2)}%`;
    const text = drawn("text", { class: "st-amount", x, y: model.height - 3, "font-size": 12, ...(n ? { "text-anchor": "middle" } : {}) }, tick.text);
    drawing.append(drawn("g", { class: tick.fits }, drawn("line", { class: "st-grid", x1: x, x2: x, y2: model.height - 16 }), text));
  }
  drawing.append(...model.lanes.flatMap((lane) => laneDrawing(lane, model)));
  drawing.append(...model.arrows.map((arrow) => arrowDrawing(arrow, model)));
  drawing.append(...model.lanes.flatMap((lane) => lane.marks.map((mark) => markDrawing(mark, lane))));
  return drawing;
}
