// What stands around the drawing: the ledger of a stretch, the details of an item, the legend.

/** Return a new element with a class and a text; texts never become markup. */
function element(tag, name, text = "") {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

/** Return a small square in the colour of a class, striped where the drawing is. */
function swatch(kind, name) {
  const made = element("span", "tl-swatch");
  made.style.setProperty("--tl-colour", `var(${COLOURS[kind]?.[name] ?? "--fill"})`);
  made.classList.toggle("tl-striped", Boolean(STRIPED[kind]?.has(name)));
  made.classList.toggle("tl-none", name === "outside");
  return made;
}

/** Return one row of the ledger. */
function ledgerLine(line, whole) {
  const row = document.createElement("tr");
  const head = element("th", "");
  head.scope = "row";
  head.append(swatch("gpu", line.name), line.words);
  row.append(head);
  for (const ns of line.ns) {
    const time = element("td", "n", duration(ns));
    time.dataset.ns = ns;
    row.append(time, element("td", "n", share(ns, whole)));
  }
  row.dataset.class = line.name;
  return row;
}

/** Return the head of the ledger: one pair of columns for each GPU. */
function ledgerHead(columns) {
  const head = document.createElement("thead");
  const row = document.createElement("tr");
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

/** Show the ledger of a stretch, and whether it is exact. */
function showLedger(place, data, { start, end }, what) {
  const length = Math.round(end) - Math.round(start);
  const { columns, lines, exact, bin } = ledgerOf(data, start, end);
  const table = document.createElement("table");
  const caption = element("caption", "", `${what}: ${duration(length)}`);
  const body = document.createElement("tbody");
  body.append(...lines.map((line) => ledgerLine(line, length)));
  table.append(caption, ledgerHead(columns), body);
  const said = exact ? "Exact, to the nanosecond." : `From sums of bins of ${duration(bin)}: off by a bin at most on either side.`;
  const from = `${moment(start, length)} to ${moment(end, length)}. `;
  const note = element("p", "fine", from + said);
  note.dataset.exact = exact;
  place.replaceChildren(table, note);
}

/** Show what is known of an item or of a stretch of a row. */
function showFacts(place, described, level) {
  const list = element("dl", "");
  for (const [label, value] of described.facts) {
    const pair = document.createElement("div");
    pair.append(element("dt", "", label), element("dd", "", value));
    list.append(pair);
  }
  place.replaceChildren(element(level, "tl-name", described.name), element("p", "fine", described.row), list);
}

/** Return one entry of the legend. */
function legendEntry(kind, name, words) {
  const entry = element("li", "");
  entry.append(swatch(kind, name), words);
  return entry;
}

/** Return the words of a class in the legend; empty where another row says the same. */
function legendWords(data, row, code) {
  const name = row.classes[code];
  if (name === "outside" || (row.kind === "stream" && name in COLOURS.gpu)) {
    return "";
  }
  return row.kind === "stream" ? `kernel: ${CLASS_WORDS[name]}` : gpuWords(data, name);
}

/** Show the colours that occur: what GPUs do, why they are idle, and what kernels are. */
function showLegend(place, data) {
  const entries = new Map();
  for (const row of data.rows.filter(({ kind }) => kind === "gpu" || kind === "stream")) {
    for (const code of row.before.keys()) {
      const words = legendWords(data, row, code);
      if (words) {
        entries.set(words, legendEntry(row.kind, row.classes[code], words));
      }
    }
  }
  place.replaceChildren(...entries.values());
}

/** Show the longest gaps as links into the timeline, and how to move. */
function showGaps(place, data, most) {
  const list = element("ol", "tl-gaps");
  for (const [index, [device, start, end]] of data.gaps.slice(0, most).entries()) {
    const link = element("a", "", `GPU ${device}, ${duration(end - start)}`);
    link.href = `#gap=${index + 1}`;
    const entry = document.createElement("li");
    entry.append(link, ` at ${moment(start, 1e6)}`);
    list.append(entry);
  }
  const how = "Point at a bar to see what it is; click to keep it here. Drag to select a stretch: its ledger stands beside.";
  place.replaceChildren(element("h3", "tl-name", "Longest gaps"), list, element("p", "fine", how));
}
