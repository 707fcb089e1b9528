// The timeline and the selection of the page: it shows where the selection is, and a click on it selects.

const MOST_ZOOM = 40;
let isOwnSelection = false;

/** Select an interval of the page. */
function selectInterval(start, end) {
  const { selection, things } = globalThis.nsyswrap;
  selection.select(things.interval(start, end));
}

/** Run an action whose selection comes from the drawing, which then keeps its view. */
function selectOwn(action) {
  isOwnSelection = true;
  try {
    action();
  } finally {
    isOwnSelection = false;
  }
}

/** Return what an item selects: its step, phase or kernel, or the finding of its idle time; null for nothing. */
function selectionOf(data, { row, item }) {
  const { things } = globalThis.nsyswrap;
  const name = item < 0 ? "" : row.classes[row.code[item]];
  if (row.kind === "steps" && name) {
    return things.interval(row.start[item], row.end[item]);
  }
  if (row.kind === "phases" && name) {
    return things.plain("phase", name);
  }
  if (row.kind === "stream" && name && isKernel(name)) {
    const shown = itemName(data, row, item);
    return things.plain("kernel", things.wholeName(shown));
  }
  const finding = row.kind === "gpu" && name && isIdle(name) ? things.findingOfRule(reasonName(data, name)) : null;
  return finding ? things.plain("finding", finding.id) : null;
}

/** Choose an item and select what it is. */
function selectItem(timeline, found) {
  const selected = selectionOf(timeline.data, found);
  if (selected) {
    selectOwn(() => globalThis.nsyswrap.selection.select(selected));
  }
  timeline.choose(found);
}

/** Return the finding and the GPUs of a selection, and its places in each row. */
function contextOf(data, selection) {
  const { things } = globalThis.nsyswrap;
  const finding = selection.kind === "finding" ? things.factsOfFinding(selection.id) : null;
  const gpus = selection.kind === "rank" ? things.gpusOf(selection.id) : null;
  return { finding, gpus, places: placesOf(data, selection, finding) };
}

/** Return the rows and items to go through one by one: kernels before idle time, phases before both; by time. */
function listOfPlaces(places) {
  const kinds = ["phases", "stream", "gpu"].map((kind) => [...places].filter(([row]) => row.kind === kind));
  const first = kinds.find((rows) => rows.length) ?? [];
  const all = first.flatMap(([row, items]) => items.map((item) => ({ row, item })));
  return all.sort((one, other) => one.row.start[one.item] - other.row.start[other.item]);
}

/** Go to the next or previous step. */
function stepStep(timeline, direction) {
  const steps = timeline.data.rows.find((row) => row.kind === "steps");
  const middle = (timeline.selection.start + timeline.selection.end) / 2;
  const next = steps ? lastNotAbove(steps.start, middle) + direction : -1;
  if (steps && next >= 0 && next < steps.start.length) {
    selectInterval(steps.start[next], steps.end[next]);
  }
}

/** Go to the next or previous place of the selection, by time. */
function stepPlace(timeline, direction) {
  if (globalThis.nsyswrap.selection.current().kind === "step") {
    stepStep(timeline, direction);
    return;
  }
  const list = (timeline.placeList ??= listOfPlaces(timeline.places));
  const here = list.findIndex(({ row, item }) => row === timeline.chosen?.row && item === timeline.chosen.item);
  const { start, end } = timeline.view;
  const ahead = list.findIndex(({ row, item }) => row.start[item] >= start && row.end[item] <= end);
  const next = here >= 0 ? here + direction : ahead >= 0 && direction > 0 ? ahead : direction > 0 ? 0 : list.length - 1;
  const place = list[(next + list.length) % list.length];
  if (!place) {
    return;
  }
  timeline.choose(place);
  const [from, to] = [place.row.start[place.item], place.row.end[place.item]];
  const reach = Math.min(Math.max((to - from) * 1.3, end - start), (to - from) * MOST_ZOOM);
  timeline.look((from + to - reach) / 2, (from + to + reach) / 2);
  globalThis.nsyswrap.announce(`Place ${((next + list.length) % list.length) + 1} of ${list.length}`);
}

/** Show a selection: an interval between curtains, all else by marks above its places. */
function showSelection(timeline, selection) {
  const { gpus, places } = contextOf(timeline.data, selection);
  timeline.forget();
  timeline.places = places;
  timeline.placeList = null;
  timeline.shownGpus = gpus;
  if (selection.start_ns === null) {
    return;
  }
  if (isOwnSelection) {
    timeline.select(selection.start_ns, selection.end_ns);
  } else {
    timeline.show(selection.start_ns, selection.end_ns);
  }
}

/** Follow the selection of the page, and let its other parts ask for what the timeline knows. */
function followSelection(timeline) {
  const { nsyswrap } = globalThis;
  const { data } = timeline;
  let last = null;
  const steps = data.rows.filter((row) => row.kind === "steps");
  nsyswrap.timeline = {
    kernels: () => data.kernels.filter(([, verdict]) => verdict).map(([name]) => name),
    phases: () => data.phases,
    steps: () => steps.flatMap((row) => Array.from(row.start, (start, item) => ({ name: itemName(data, row, item), start, end: row.end[item] }))),
    statistics: (selection) => {
      if (!selection.kind || selection.kind === "range") return null;
      if (last?.selection !== selection) last = { selection, found: statisticsOf(data, selection, contextOf(data, selection)) };
      return last.found;
    },
    stepPlace: (direction) => stepPlace(timeline, direction),
    isShort: (name, whole) => name !== whole && elided(whole) === name,
    duration,
  };
  document.addEventListener(nsyswrap.selection.EVENT, () => showSelection(timeline, nsyswrap.selection.current()));
  document.dispatchEvent(new CustomEvent("nsyswrap:timeline"));
}

/** Mark where the selection is in each row, and fade what is not of it. */
function paintPlaces(sheet, places, shownGpus) {
  const { layout } = sheet;
  for (const place of layout.places) {
    const items = places.get(place.row);
    if (items) {
      paintItems(sheet, place, items);
    } else if (shownGpus && place.row.device >= 0 && !shownGpus.has(place.row.device)) {
      const whole = new Path2D();
      whole.rect(layout.gutter, place.top, sheet.width - layout.gutter, place.height);
      fade(sheet, whole);
    }
  }
}

/** Fade the parts of a row that a path holds. */
function fade({ context, palette }, path) {
  context.globalAlpha = 0.72;
  context.fillStyle = palette.text("--page");
  context.fill(path);
  context.globalAlpha = 1;
}

/** Mark items of a row with a line above them, at least a pixel wide, and fade the rest of the row. */
function paintItems(sheet, { row, top, height }, items) {
  const { context, data, palette, view, xOf } = sheet;
  const [others, lines] = [new Path2D(), new Path2D()];
  let until = xOf(view.start);
  let line = -1;
  const first = row.first[binAt(data.edges, view.start)];
  for (let at = lastNotAbove(items, first - 1) + 1; at < items.length && row.start[items[at]] <= view.end; at += 1) {
    const item = items[at];
    if (row.end[item] <= view.start) {
      continue;
    }
    const left = xOf(Math.max(row.start[item], view.start));
    const right = xOf(Math.min(row.end[item], view.end));
    if (left - until > 0.5) {
      others.rect(until, top, left - until, height);
    }
    until = Math.max(until, right);
    if (Math.max(right, left + 1) > line + 0.5) {
      const from = Math.max(left, line);
      line = Math.max(right, left + 1);
      lines.rect(from, top - 4, line - from, 3);
    }
  }
  others.rect(until, top, xOf(view.end) - until, height);
  fade(sheet, others);
  context.fillStyle = palette.text("--accent");
  context.fill(lines);
}
