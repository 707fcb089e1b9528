// Draws the rows of the timeline. The height of a bar is the share of its pixel column that it takes, so no operation
// and no gap is drawn wider than it is.

const MOST_LABELS = 2500;
const SHOWN_FLAGS = 20;

/** Return the time and the bin of each edge between pixel columns. */
function columnsOf(edges, view, count) {
  const times = new Float64Array(count + 1);
  const bins = new Int32Array(count + 1);
  let bin = binAt(edges, view.start);
  for (let x = 0; x <= count; x += 1) {
    times[x] = view.start + (x * (view.end - view.start)) / count;
    while (bin < edges.length - 2 && edges[bin + 1] <= times[x]) {
      bin += 1;
    }
    bins[x] = bin;
  }
  return { times, bins, count };
}

/** Return the two pixel colours of a class, which differ where it is striped. */
function inksOf(row, palette) {
  return row.classes.map((name) => {
    const colour = palette.rgb(colourOf(row.kind, name));
    const [one, other] = isStriped(row.kind, name) ? STRIPES : [0, 0];
    const inks = [one, other].map((part) => pixel(mixed(colour, palette.rgb("--page"), part)));
    return name === "outside" ? null : inks;
  });
}

/** Fill the pixels of one column between two heights, both counted from the bottom. */
function fillColumn(image, x, from, to, inks, stripe) {
  const { data32, width, height } = image;
  for (let y = from; y < to; y += 1) {
    data32[(height - 1 - y) * width + x] = inks[((x + y) / stripe) & 1];
  }
}

/** Draw the shares of each pixel column of a row on top of one another. */
function paintShares(image, row, edges, columns, inks, stripe) {
  let before = new Float64Array(row.classes.length);
  let after = new Float64Array(row.classes.length);
  takenBefore(row, edges, columns.bins[0], columns.times[0], before);
  const codes = [...row.before.keys()].filter((code) => inks[code]);
  for (let x = 0; x < columns.count; x += 1) {
    takenBefore(row, edges, columns.bins[x + 1], columns.times[x + 1], after);
    const scale = image.height / (columns.times[x + 1] - columns.times[x]);
    let sum = 0;
    for (const code of codes) {
      const from = Math.min(Math.round(sum * scale), image.height);
      sum += after[code] - before[code];
      fillColumn(image, x, from, Math.min(Math.round(sum * scale), image.height), inks[code], stripe);
    }
    [before, after] = [after, before];
  }
}

/** Draw the mean of a counter in each pixel column on the scale of its row. */
function paintCounter(image, row, edges, columns, palette, scale) {
  const area = pixel(mixed(palette.rgb("--accent"), palette.rgb("--panel"), 0.62));
  const line = pixel(palette.rgb("--accent"));
  for (let x = 0; x < columns.count; x += 1) {
    const mean = meanBetween(row, edges, columns.times[x], columns.times[x + 1]);
    const top = Number.isNaN(mean) ? 0 : Math.min(Math.round((mean / row.most) * image.height), image.height);
    fillColumn(image, x, 0, top, [area, area], 1);
    fillColumn(image, x, Math.max(top - Math.ceil(scale), 0), top, [line, line], 1);
  }
}

/** Return an empty picture of a row. */
function blankImage(context, width, height, colour) {
  const image = context.createImageData(width, height);
  const data32 = new Uint32Array(image.data.buffer).fill(colour);
  return { image, data32, width, height };
}

/** Draw one row into the canvas. */
function paintRow(sheet, place, columns) {
  const { context, data, palette, scale, layout } = sheet;
  const height = Math.round(place.height * scale);
  const image = blankImage(context, columns.count, height, pixel(palette.rgb("--panel")));
  if (place.row.kind === "counter") {
    paintCounter(image, place.row, data.edges, columns, palette, scale);
  } else {
    paintShares(image, place.row, data.edges, columns, inksOf(place.row, palette), Math.round(3 * scale));
  }
  context.putImageData(image.image, Math.round(layout.gutter * scale), Math.round(place.top * scale));
}

/** Return the start of a text that fits; an empty text where only a few letters fit. */
function fitting(context, text, width) {
  if (context.measureText(text).width <= width) {
    return text;
  }
  const letters = Math.floor((text.length * width) / context.measureText(text).width) - 1;
  return letters < 4 ? "" : `${text.slice(0, letters)}…`;
}

/** Write the names of items that are wide enough, and draw a line between neighbours. */
function labelItems(sheet, place) {
  const { context, data, palette, view, xOf } = sheet;
  const { row, top, height } = place;
  const from = row.first[binAt(data.edges, view.start)];
  const to = lastNotAbove(row.start, view.end);
  if (to - from > MOST_LABELS) {
    return;
  }
  context.font = `12px ${palette.font}`;
  context.textBaseline = "middle";
  for (let i = Math.max(from, 0); i <= to; i += 1) {
    const [left, right] = [Math.max(xOf(row.start[i]), xOf(view.start)), Math.min(xOf(row.end[i]), xOf(view.end))];
    if (right - left < 3) {
      continue;
    }
    context.fillStyle = palette.text("--page");
    context.fillRect(left - 0.5, top, 1, height);
    labelItem(sheet, place, i, left, right);
  }
}

/** Write the name of one item where there is room. */
function labelItem(sheet, { row, top, height }, item, left, right) {
  const { context, data, palette } = sheet;
  const name = row.classes[row.code[item]];
  if (right - left < 30 || name === "outside") {
    return;
  }
  const whole = row.kind === "gpu" ? reasonName(data, name) : itemName(data, row, item);
  const text = fitting(context, whole, right - left - 12);
  const striped = isStriped(row.kind, name);
  if (text && striped) {
    context.fillStyle = palette.text("--page");
    context.fillRect(left + 3, top + height / 2 - 8, context.measureText(text).width + 6, 16);
  }
  context.fillStyle = striped ? palette.text("--ink") : isDark(palette.rgb(colourOf(row.kind, name))) ? "#ffffff" : "#000000";
  context.fillText(text, left + 6, top + height / 2 + 0.5);
}

/** Draw dots below the parts of a row that show sums over bins and not single items. */
function markBinned(sheet, { row, top, height }, columns) {
  const { context, palette, scale, layout } = sheet;
  context.fillStyle = palette.text("--soft");
  for (let x = 0; x < columns.count; x += 1) {
    if (!row.isExact[columns.bins[x]] && row.kind !== "counter" && Math.floor(x / scale) % 4 === 0) {
      context.fillRect(layout.gutter + x / scale, top + height + 1, 1, 1);
    }
  }
}

/** Write the name of a row beside it, or above it where the page is narrow. */
function labelRow(sheet, { row, top, height, opens }, isChosen, isPinned) {
  const { context, palette, layout, width } = sheet;
  const isHead = row.kind === "gpu" || isPinned;
  context.font = `${isHead || isChosen ? "650 " : ""}12px ${palette.font}`;
  context.fillStyle = palette.text(isHead || isChosen ? "--ink" : "--soft");
  context.textBaseline = "middle";
  if (opens) {
    context.fillRect(0, top - (layout.narrow ? LABEL_LINE : 0) - 6, width, 0.5);
  }
  const indent = !layout.narrow && ["stream", "counter", "python", "range"].includes(row.kind) && !isPinned ? 12 : 0;
  const room = layout.narrow ? width : layout.gutter - indent - 10;
  const y = layout.narrow ? top - LABEL_LINE / 2 - 2 : top + height / 2;
  const name = isPinned ? `▴ ${row.label.startsWith("rank") ? row.label : rowName(sheet.data, row)}` : row.label;
  context.fillText(fitting(context, name, room), indent, y);
}

/** Return the distance between two ticks: 1, 2 or 5 times a power of ten, at least `room` pixels. */
function tickStep(length, width, room) {
  const least = (length / width) * room;
  const power = 10 ** Math.floor(Math.log10(least));
  return Math.max([1, 2, 5, 10].map((one) => one * power).find((one) => one >= least), 1);
}

/** Draw the axis of time: seconds since capture start, with lines through all rows. */
function paintAxis(sheet) {
  const { context, palette, layout, width, view, xOf } = sheet;
  const length = view.end - view.start;
  const step = tickStep(length, width - layout.gutter, 120);
  const decimals = Math.min(Math.max(9 - Math.floor(Math.log10(step) + 1e-9), 0), 9);
  context.font = `12px ${palette.font}`;
  context.textBaseline = "alphabetic";
  for (let time = Math.ceil(view.start / step) * step; time <= view.end; time += step) {
    context.fillStyle = palette.text("--line");
    context.fillRect(xOf(time), 17, 1, layout.height - 17);
    context.fillStyle = palette.text("--soft");
    const text = `${(time / 1e9).toFixed(decimals)} s`;
    const room = width - xOf(time) - 3;
    if (context.measureText(text).width <= room) {
      context.fillText(text, xOf(time) + 3, 12);
    }
  }
}

/** Write the value of the full height of a counter's row. */
function labelScale(sheet, { row, top }) {
  const { context, palette, width } = sheet;
  const text = `${row.most / 100} %`;
  context.font = `12px ${palette.font}`;
  context.textBaseline = "middle";
  context.fillStyle = palette.text("--soft");
  context.fillText(text, width - context.measureText(text).width - 3, top + 6);
}

/** Grey out the time outside the window of the report, and outside the selection. */
function paintCurtains(sheet, selection) {
  const { context, palette, layout, width, data, view, xOf } = sheet;
  const curtain = (from, to, alpha) => {
    const left = Math.max(xOf(Math.max(from, view.start)), layout.gutter);
    const right = Math.min(xOf(Math.min(to, view.end)), width);
    if (right > left) {
      context.globalAlpha = alpha;
      context.fillStyle = palette.text("--page");
      context.fillRect(left, AXIS, right - left, layout.height - AXIS);
      context.globalAlpha = 1;
    }
  };
  curtain(view.start, data.window[0], 0.55);
  curtain(data.window[1], view.end, 0.55);
  if (selection) {
    curtain(view.start, selection.start, 0.6);
    curtain(selection.end, view.end, 0.6);
    context.fillStyle = palette.text("--accent");
    for (const time of [selection.start, selection.end].filter((one) => one >= view.start && one <= view.end)) {
      context.fillRect(xOf(time) - 1, 17, 2, layout.height - 17);
    }
  }
}

/** Mark the longest gaps above the row of their GPU, with their numbers from the table. */
function paintFlags(sheet) {
  const { context, data, palette, view, layout, xOf } = sheet;
  context.font = `650 12px ${palette.font}`;
  context.textBaseline = "alphabetic";
  const taken = new Map();
  for (const [index, [device, start, end]] of data.gaps.slice(0, SHOWN_FLAGS).entries()) {
    const place = layout.places.find(({ row }) => row.kind === "gpu" && row.device === device);
    if (!place || end < view.start || start > view.end) {
      continue;
    }
    const x = xOf((Math.max(start, view.start) + Math.min(end, view.end)) / 2);
    const others = taken.get(device) ?? [];
    if (others.every((other) => Math.abs(other - x) > 16)) {
      paintFlag(sheet, x, place.top, `${index + 1}`);
      taken.set(device, [...others, x]);
    }
  }
}

/** Draw one numbered flag whose tip is just inside a row; where the name of the row is above it, the whole flag is. */
function paintFlag({ context, palette, layout, width: edge }, x, edgeOfRow, text) {
  const top = layout.narrow ? edgeOfRow + 6 : edgeOfRow;
  context.fillStyle = palette.text("--ink");
  context.beginPath();
  context.moveTo(x, top + 14);
  context.lineTo(x - 4, top + 9);
  context.lineTo(x + 4, top + 9);
  context.fill();
  const width = context.measureText(text).width + 6;
  const left = Math.min(x - width / 2, edge - width);
  context.fillRect(left, top - 5, width, 15);
  context.fillStyle = palette.text("--page");
  context.fillText(text, left + 3, top + 7);
}

/** Draw a frame around the chosen item. */
function paintChosen(sheet, chosen) {
  const { context, palette, layout, view, xOf } = sheet;
  const place = layout.places.find(({ row }) => row === chosen?.row);
  if (!place || chosen.item < 0) {
    return;
  }
  const [start, end] = [chosen.row.start[chosen.item], chosen.row.end[chosen.item]];
  if (end < view.start || start > view.end) {
    return;
  }
  const left = xOf(Math.max(start, view.start));
  context.strokeStyle = palette.text("--ink");
  context.lineWidth = 2;
  context.strokeRect(left - 1, place.top - 1, Math.max(xOf(Math.min(end, view.end)) - left, 1) + 2, place.height + 2);
}

/** Draw everything: axis, rows, names, flags, the selection and the chosen item. */
function paintTimeline(canvas, data, palette, layout, { view, selection, chosen, rowIndex, places, shownGpus, pinned }) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(layout.height * scale);
  const context = canvas.getContext("2d");
  const xOf = (time) => layout.gutter + ((time - view.start) / (view.end - view.start)) * (width - layout.gutter);
  const sheet = { context, data, palette, scale, layout, width, view, xOf };
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const columns = columnsOf(data.edges, view, Math.max(canvas.width - Math.round(layout.gutter * scale), 1));
  paintAxis(sheet);
  layout.places.forEach((place) => paintRow(sheet, place, columns));
  layout.places.forEach((place) => {
    markBinned(sheet, place, columns);
    if (place.row.kind === "counter") {
      labelScale(sheet, place);
    } else {
      labelItems(sheet, place);
    }
  });
  paintPlaces(sheet, places, shownGpus);
  paintCurtains(sheet, selection);
  // On a narrow page the names of rows are above them, where the curtains are.
  layout.places.forEach((place, index) => labelRow(sheet, place, index === rowIndex, pinned.has(place.row)));
  paintFlags(sheet);
  paintFolds(sheet);
  paintMeasure(sheet, selection);
  paintChosen(sheet, chosen);
}

/** Draw the recorded time in one strip: what the first GPU did, the window, the selection, and which part is in view. */
function paintMap(canvas, data, palette, view, selection) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  const [start, end] = [data.edges[0], data.edges[data.edges.length - 1]];
  const row = data.rows.find((one) => one.kind === "gpu");
  const columns = columnsOf(data.edges, { start, end }, canvas.width);
  const image = blankImage(context, canvas.width, canvas.height, pixel(palette.rgb("--panel")));
  paintShares(image, row, data.edges, columns, inksOf(row, palette), Math.round(3 * scale));
  context.putImageData(image.image, 0, 0);
  context.scale(scale, scale);
  const xOf = (time) => ((time - start) / (end - start)) * width;
  context.globalAlpha = 0.7;
  context.fillStyle = palette.text("--page");
  context.fillRect(0, 0, xOf(view.start), height);
  context.fillRect(xOf(view.end), 0, width - xOf(view.end), height);
  context.globalAlpha = 1;
  context.fillStyle = palette.text("--soft");
  for (const time of data.window) {
    context.fillRect(Math.min(xOf(time), width - 1), 0, 1, height);
  }
  if (selection) {
    context.fillStyle = palette.text("--accent");
    context.fillRect(xOf(selection.start), 0, Math.max(xOf(selection.end) - xOf(selection.start), 2), 4);
  }
  context.strokeStyle = palette.text("--ink");
  context.lineWidth = 1.5;
  context.strokeRect(xOf(view.start) + 0.75, 0.75, Math.max(xOf(view.end) - xOf(view.start) - 1.5, 2), height - 1.5);
}
