// Which rows are drawn and where: pinned rows first, and rows of little interest folded into one line.

const HEIGHTS = { steps: 16, phases: 20, gpu: 60, stream: 28, counter: 26, thread: 28, range: 18, python: 18 };
const GUTTER = 172;
const NARROW = 640;
const AXIS = 26;
const LABEL_LINE = 18;
const FOLD_LINE = 20;
// On a narrow page a row's name is above it; a tap on its first pixels is meant for the name.
const NAME = 100;
// Above this many GPUs their rows get lower, so that they fit on a screen or two.
const TALL_GPUS = 4;
const LEAST_GPU = 14;
// Threads that are always drawn, as the Python module host_rows has them; and levels of ranges of a thread.
const OPEN_THREADS = 4;
const OPEN_LEVELS = 3;

const QUIET = "quiet";

/**
 * Set the group that each row folds into: threads that launch little, rows of ranges that all lie outside the window, as
 * those of the first steps, and deep ranges of a thread; empty for none.
 */
function setFolds({ rows, window: [from, to] }) {
  const isQuiet = ({ start, end, isExact }) => !isExact.includes(0) && !start.some((one, at) => one < to && end[at] > from);
  let [threads, level] = [0, 0];
  for (const row of rows) {
    threads += row.kind === "thread";
    level = row.kind === "range" ? level + 1 : 0;
    const ofRanges = level && isQuiet(row) ? QUIET : level > OPEN_LEVELS ? `ranges of ${row.thread}` : "";
    row.fold = threads > OPEN_THREADS && row.device < 0 ? "threads" : ofRanges;
  }
}

/** Return what a folded group holds, in words. */
function foldWords(fold, count) {
  const [rows, levels] = count === 1 ? ["row", "level"] : ["rows", "levels"];
  const words = { threads: `${count} more threads that launch work`, [QUIET]: `${count} ${rows} of ranges outside the window` };
  return words[fold] ?? `${count} deeper ${levels} of ranges`;
}

/** Return the rows in the order in which they are drawn, and the line of each folded group before its first row. */
function shownRows(rows, { pinned, unfolded }) {
  const shown = [...pinned].map((row) => ({ row, group: "pinned" }));
  const groups = new Set();
  const addFold = (name) => {
    const count = rows.filter(({ fold }) => fold === name).length;
    shown.push({ fold: name, isOpen: unfolded.has(name), words: foldWords(name, count) });
  };
  for (const row of rows.filter((one) => !pinned.has(one))) {
    if (row.fold && !groups.has(row.fold)) {
      groups.add(row.fold);
      // Ranges outside the window are under many threads: their line is below all rows.
      if (row.fold !== QUIET) addFold(row.fold);
    }
    if (!row.fold || unfolded.has(row.fold)) {
      shown.push({ row, group: row.device >= 0 ? `gpu ${row.device}` : ["thread", "range", "python"].includes(row.kind) ? "host" : "loop" });
    }
  }
  if (groups.has(QUIET)) addFold(QUIET);
  return shown;
}

/** Return the top and height of each row and of each folded group, and the width of the column of names. */
function layOut(data, width, state = { pinned: new Set(), unfolded: new Set() }) {
  const narrow = width < NARROW;
  const [places, folds] = [[], []];
  let top = AXIS;
  let [group, before] = ["", ""];
  const gpus = data.rows.filter(({ kind }) => kind === "gpu").length;
  const many = gpus > TALL_GPUS;
  const gpuHeight = many ? Math.max(LEAST_GPU, Math.round((TALL_GPUS * HEIGHTS.gpu) / gpus)) : HEIGHTS.gpu;
  const heightOf = (kind) => (kind === "gpu" ? gpuHeight : HEIGHTS[kind]);
  for (const one of shownRows(data.rows, state)) {
    if (!one.row) {
      folds.push({ ...one, top: top + 4, height: FOLD_LINE });
      top += FOLD_LINE + 4;
      before = "";
      continue;
    }
    const { row } = one;
    const near = many && row.kind === "gpu" && before === "gpu";
    const isTight = before === "range" && row.kind === "range";
    top += near || isTight ? 2 : one.group !== group && group ? 12 : 5;
    top += narrow ? LABEL_LINE : 0;
    places.push({ row, top, height: heightOf(row.kind), opens: one.group !== group && group !== "" && !near });
    top += heightOf(row.kind);
    group = one.group;
    before = row.kind;
  }
  return { places, folds, height: top + 6, gutter: narrow ? 0 : GUTTER, narrow };
}

/** Return what a press on the names of rows does: fold or unfold a group, or pin a row; null where it is on neither. */
function actionAt(timeline, x, y) {
  const { layout } = timeline;
  const fold = layout.folds.find(({ top, height }) => y >= top && y < top + height);
  if (fold) {
    return () => timeline.toggleFold(fold.fold);
  }
  const isName = ({ top, height }) => (layout.narrow ? x < NAME && y >= top - LABEL_LINE && y < top : x < layout.gutter && y >= top - 2 && y < top + height + 2);
  const place = layout.places.find(isName);
  return place ? () => timeline.togglePin(place.row) : null;
}

/** Draw the line of each folded group. */
function paintFolds({ context, palette, layout, width }) {
  context.font = `12px ${palette.font}`;
  context.textBaseline = "middle";
  for (const { top, height, words, isOpen } of layout.folds) {
    context.fillStyle = palette.text("--panel");
    context.fillRect(0, top, width, height);
    context.fillStyle = palette.text("--ink");
    context.fillText(`${isOpen ? "▾" : "▸"} ${words}`, 4, top + height / 2 + 0.5);
  }
}

/** Draw how long the selection is, between its ends and above the rows. */
function paintMeasure({ context, palette, layout, width, view, xOf }, selection) {
  if (!selection || selection.end <= view.start || selection.start >= view.end) {
    return;
  }
  const left = Math.max(xOf(selection.start), layout.gutter);
  const right = Math.min(xOf(selection.end), width);
  const text = duration(Math.round(selection.end) - Math.round(selection.start));
  context.font = `650 12px ${palette.font}`;
  context.textBaseline = "middle";
  const room = context.measureText(text).width + 10;
  const at = Math.min(Math.max((left + right - room) / 2, layout.gutter), width - room);
  context.fillStyle = palette.text("--accent");
  context.fillRect(left, 20, right - left, 2);
  for (const [x, turned] of [[left, 1], [right, -1]]) {
    context.beginPath();
    context.moveTo(x, 21);
    context.lineTo(x + turned * 6, 17);
    context.lineTo(x + turned * 6, 25);
    context.fill();
  }
  context.fillStyle = palette.text("--page");
  context.fillRect(at, 12, room, 17);
  context.fillStyle = palette.text("--accent");
  context.fillText(text, at + 5, 21);
}

// An end of a selection goes to the edge of an item at most so many pixels away.
const SNAP = 5;

/** Return a time, or the edge of an item of a row that is near it, so that items can be measured exactly. */
function snapped(timeline, x, y) {
  const time = timeline.timeAt(Math.max(x, timeline.layout.gutter));
  const place = timeline.layout.places.find(({ top, height }) => y >= top && y < top + height);
  const reach = timeline.timeAt(x + SNAP) - timeline.timeAt(x);
  const item = place && place.row.start.length ? itemAt(place.row, time, reach) : -1;
  if (item < 0) {
    return time;
  }
  const edges = [place.row.start[item], place.row.end[item]].filter((edge) => Math.abs(edge - time) <= reach);
  return edges.sort((one, other) => Math.abs(one - time) - Math.abs(other - time))[0] ?? time;
}
