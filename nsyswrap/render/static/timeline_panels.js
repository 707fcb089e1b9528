// The panels around the drawing: the breakdown of an interval, the details of an item, the legend.

const element = globalThis.nsyswrap.make;

/** Return a small square in the colour of a class, striped where the drawing is. */
function swatch(kind, name) {
  const made = element("span", "tl-swatch");
  made.style.setProperty("--tl-colour", `var(${colourOf(kind, name)})`);
  made.classList.toggle("tl-striped", isStriped(kind, name));
  made.classList.toggle("tl-none", name === "outside");
  return made;
}

/** Return one row of the breakdown. */
function ledgerLine(line, whole) {
  const row = element("tr");
  const head = element("th", "");
  head.scope = "row";
  head.append(swatch("gpu", line.name), line.label);
  row.append(head);
  for (const ns of line.ns) {
    const time = element("td", "n", duration(ns));
    time.dataset.ns = ns;
    row.append(time, element("td", "n", share(ns, whole)));
  }
  row.dataset.class = line.name;
  return row;
}

/** Return the head of the breakdown: one pair of columns for each GPU. */
function ledgerHead(columns) {
  const head = element("thead");
  const row = element("tr");
  row.append(element("td", ""));
  for (const column of columns) {
    const cell = element("th", "n", column.label);
    cell.scope = "colgroup";
    cell.colSpan = 2;
    row.append(cell);
  }
  head.append(row);
  return head;
}

/** Show the breakdown of an interval, and whether it is exact. */
function showLedger(place, data, { start, end }, what) {
  const length = Math.round(end) - Math.round(start);
  const { columns, lines, exact, bin } = ledgerOf(data, start, end);
  const table = element("table");
  const caption = element("caption", "", `${what}: ${duration(length)}`);
  const body = element("tbody");
  body.append(...lines.map((line) => ledgerLine(line, length)));
  table.append(caption, ledgerHead(columns), body);
  const accuracy = exact ? "Exact to the nanosecond." : `From sums over bins of ${duration(bin)}: wrong by at most one bin at each end.`;
  const from = `${moment(start, length)} to ${moment(end, length)}. `;
  const note = element("p", "fine", from + accuracy);
  note.dataset.exact = exact;
  place.replaceChildren(table, note);
}

/** Show the description of an item or of an interval of a row. */
function showFacts(place, described, level) {
  const list = element("dl", "");
  for (const [label, value] of described.facts) {
    const pair = element("div");
    pair.append(element("dt", "", label), element("dd", "", value));
    list.append(pair);
  }
  place.replaceChildren(element(level, "tl-name", described.name), element("p", "fine", described.row), list);
}

/** Return one entry of the legend: a colour and all that it stands for. */
function legendEntry({ kind, name, labels }) {
  const entry = element("li", "");
  const [first, ...more] = labels;
  entry.append(swatch(kind, name), [first, ...more.map((label) => label.replace("idle: ", ""))].join(", "));
  return entry;
}

/** Return the label of a class in the legend; empty where another row has the same class. */
function legendLabel(data, row, code) {
  const name = row.classes[code];
  if (name === "outside" || (row.kind === "stream" && Object.hasOwn(BUSY_COLOURS, name))) {
    return "";
  }
  return row.kind === "stream" ? `kernel: ${CLASS_NAMES[name] ?? name}` : gpuLabel(data, name);
}

/** Show the colours in use: what GPUs do, why they are idle, and the kinds of kernels. */
function showLegend(place, data) {
  const colours = new Map();
  for (const row of data.rows.filter(({ kind }) => kind === "gpu" || kind === "stream")) {
    for (const code of row.before.keys()) {
      const label = legendLabel(data, row, code);
      const name = row.classes[code];
      const key = `${row.kind} ${colourOf(row.kind, name)} ${isStriped(row.kind, name)}`;
      if (label && !colours.has(key)) {
        colours.set(key, { kind: row.kind, name, labels: new Set() });
      }
      if (label) {
        colours.get(key).labels.add(label);
      }
    }
  }
  place.replaceChildren(...[...colours.values()].map(legendEntry));
}

/** Show the longest gaps as links into the timeline, and how to move. */
function showGaps(place, data, most) {
  const list = element("ol", "tl-gaps");
  for (const [index, [device, start, end]] of data.gaps.slice(0, most).entries()) {
    const link = element("a", "", `GPU ${device}, ${duration(end - start)}`);
    link.href = `#gap=${index + 1}`;
    const entry = element("li");
    entry.append(link, ` at ${moment(start, 1e6)}`);
    list.append(entry);
  }
  const how = "Point at a bar for its details. Click to keep them here and to select what the bar shows. Drag to select an interval.";
  place.replaceChildren(element("h3", "tl-name", "Longest gaps"), list, element("p", "fine", how));
}
