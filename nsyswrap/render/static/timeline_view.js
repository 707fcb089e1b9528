// The state of the timeline: its view, its selection and the chosen item.

const SHORTEST = 50;
const SETTLE_MS = 120;
const LISTED_GAPS = 8;

/** The view, the selection and the chosen item, and the actions that change them. */
class TimelineView {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.bounds = { start: data.edges[0], end: data.edges[data.edges.length - 1] };
    this.view = openingView(data);
    this.selection = null;
    this.chosen = null;
    this.places = new Map();
    this.shownGpus = null;
    this.pointer = null;
    this.rowIndex = -1;
    this.pinned = new Set();
    this.unfolded = new Set();
    this.layout = layOut(data, root.clientWidth, this);
    this.pans = matchMedia("(pointer: coarse)").matches;
    this.part = (name) => root.querySelector(`[data-tl="${name}"]`);
    this.canvas = this.part("rows");
    this.map = this.part("map");
    this.refit();
    showLegend(this.part("legend"), data);
    showGaps(this.part("detail"), data, LISTED_GAPS);
  }

  /** Read colours and sizes again, and draw. */
  refit() {
    if (!this.canvas.clientWidth) {
      return; // it is folded, or on paper, where the strips replace it
    }
    this.palette = readPalette(this.root);
    this.layout = layOut(this.data, this.canvas.clientWidth, this);
    this.canvas.style.height = `${this.layout.height}px`;
    this.draw();
  }

  /** Draw before the next frame, and update the panels when the view no longer moves. */
  draw() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.drawNow();
      });
    }
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.describeView(), SETTLE_MS);
  }

  /** Draw at once. On paper and in a closed group there is nothing to draw on. */
  drawNow() {
    if (!this.palette || !this.canvas.clientWidth) {
      return;
    }
    paintTimeline(this.canvas, this.data, this.palette, this.layout, this);
    paintMap(this.map, this.data, this.palette, this.view, this.selection);
    this.canvas.dataset.start = this.view.start;
    this.canvas.dataset.end = this.view.end;
  }

  /** Show the breakdown of the selection, else of the view, and whether the drawing is exact. */
  describeView() {
    const what = this.selection ? "Selected" : "In view";
    showLedger(this.part("ledger"), this.data, this.selection ?? this.view, what);
    const { start, end } = this.view;
    const [first, last] = [binAt(this.data.edges, start), binAt(this.data.edges, end)];
    const rows = this.data.rows.filter((row) => row.kind !== "counter");
    const exact = rows.every((row) => !row.isExact.subarray(first, last + 1).includes(0));
    const badge = this.part("badge");
    badge.textContent = exact ? "exact" : "sums where dotted";
    badge.classList.toggle("tl-binned", !exact);
    this.part("where").textContent = `${moment(start, end - start)} to ${moment(end, end - start)} · ${duration(Math.round(end - start))}`;
  }

  /** Return the time under the pointer; the middle of the view where it points elsewhere. */
  anchor() {
    const isInside = this.pointer !== null && this.pointer > this.layout.gutter;
    return isInside ? this.timeAt(this.pointer) : undefined;
  }

  /** Return the time at a position of the drawing, in pixels from its left. */
  timeAt(x) {
    const width = this.canvas.clientWidth - this.layout.gutter;
    const part = (x - this.layout.gutter) / width;
    return this.view.start + part * (this.view.end - this.view.start);
  }

  /** Show an interval, limited to the recorded time. */
  look(start, end) {
    const whole = this.bounds.end - this.bounds.start;
    const length = Math.min(Math.max(end - start, Math.min(SHORTEST, whole)), whole);
    const middle = (start + end) / 2;
    const from = Math.min(Math.max(middle - length / 2, this.bounds.start), this.bounds.end - length);
    this.view = { start: from, end: from + length };
    this.draw();
  }

  /** Zoom by a factor; the time at the anchor keeps its position. */
  zoom(factor, anchor = (this.view.start + this.view.end) / 2) {
    const { start, end } = this.view;
    if (end - start > SHORTEST || factor > 1) {
      this.look(anchor - (anchor - start) * factor, anchor + (end - anchor) * factor);
    }
  }

  /** Move by a part of the view. */
  pan(part) {
    const move = (this.view.end - this.view.start) * part;
    const kept = Math.min(Math.max(move, this.bounds.start - this.view.start), this.bounds.end - this.view.end);
    this.look(this.view.start + kept, this.view.end + kept);
  }

  /** Select an interval and show its breakdown. */
  select(start, end) {
    const [from, to] = [Math.min(start, end), Math.max(start, end)];
    this.selection = { start: Math.max(from, this.bounds.start), end: Math.min(to, this.bounds.end) };
    this.draw();
  }

  /** Select an interval and show it with a margin. */
  show(start, end) {
    const room = (end - start) * 0.15;
    this.select(start, end);
    this.look(start - room, end + room);
  }

  /** Clear the selection and the chosen item. */
  clear() {
    this.forget();
    globalThis.nsyswrap.selection.clear();
  }

  /** Show nothing as selected or chosen. */
  forget() {
    this.selection = null;
    this.chosen = null;
    showGaps(this.part("detail"), this.data, LISTED_GAPS);
    this.draw();
  }

  /** Show the selection or the chosen item, else the window of the report. */
  fit() {
    const [start, end] = this.data.window;
    const item = this.chosen && this.chosen.item >= 0 ? this.chosen : null;
    const own = item ? { start: item.row.start[item.item], end: item.row.end[item.item] } : null;
    const wanted = this.selection ?? own ?? { start, end };
    const room = wanted === this.selection || own ? (wanted.end - wanted.start) * 0.15 : 0;
    this.look(wanted.start - room, wanted.end + room);
  }

  /** Go to the next or previous long gap, by time. */
  stepGap(direction) {
    const middle = this.selection ? (this.selection.start + this.selection.end) / 2 : (this.view.start + this.view.end) / 2;
    const gaps = this.data.gaps.map(([, start, end]) => ({ start, end, at: (start + end) / 2 }));
    const ahead = gaps.filter(({ at }) => (at - middle) * direction > 0.5);
    ahead.sort((one, other) => (one.at - other.at) * direction);
    if (ahead.length) {
      selectInterval(ahead[0].start, ahead[0].end);
    }
  }

  /** Show or hide the rows of a group. */
  toggleFold(fold) {
    if (!this.unfolded.delete(fold)) {
      this.unfolded.add(fold);
    }
    this.rowIndex = -1;
    this.refit();
    globalThis.nsyswrap.announce(this.unfolded.has(fold) ? "The rows are shown." : "The rows are folded.");
  }

  /** Show or hide all groups. */
  toggleFolds() {
    const all = this.layout.folds.map(({ fold }) => fold);
    const open = all.some((fold) => !this.unfolded.has(fold));
    this.unfolded = new Set(open ? all : []);
    this.rowIndex = -1;
    this.refit();
    const said = open ? "All rows are shown." : "Rows of little interest are folded.";
    globalThis.nsyswrap.announce(all.length ? said : "There are no folded rows.");
  }

  /** Keep a row above all others, or put it back. */
  togglePin(row) {
    const isNew = !this.pinned.delete(row);
    if (isNew) {
      this.pinned.add(row);
    }
    this.refit();
    this.rowIndex = this.layout.places.findIndex((place) => place.row === row);
    globalThis.nsyswrap.announce(`${rowName(this.data, row)} is ${isNew ? "pinned above the others" : "back in its place"}.`);
  }

  /** Pin the chosen row. */
  pinRow() {
    const place = this.layout.places[this.rowIndex];
    if (place) {
      this.togglePin(place.row);
    } else {
      globalThis.nsyswrap.announce("Choose a row with the arrows up and down.");
    }
  }

  /** Choose the row above or below. */
  stepRow(direction) {
    const count = this.layout.places.length;
    this.rowIndex = Math.min(Math.max(this.rowIndex + direction, 0), count - 1);
    this.part("detail").replaceChildren(element("p", "fine", `Row ${rowName(this.data, this.layout.places[this.rowIndex].row)}`));
    this.draw();
  }

  /** Choose the next or previous item of the chosen row, and bring it into view. */
  stepItem(direction) {
    const { row } = this.layout.places[Math.max(this.rowIndex, 0)];
    const middle = (this.view.start + this.view.end) / 2;
    const here = this.chosen?.row === row ? this.chosen.item + direction : lastNotAbove(row.start, middle);
    const item = Math.min(Math.max(here, 0), row.start.length - 1);
    if (item >= 0) {
      this.choose({ row, item });
      const { start, end } = this.view;
      if (row.start[item] < start || row.end[item] > end) {
        const reach = Math.max(end - start, (row.end[item] - row.start[item]) * 1.3);
        const at = (row.start[item] + row.end[item]) / 2;
        this.look(at - reach / 2, at + reach / 2);
      }
    }
  }

  /** Choose an item, or an interval of a row without items, and describe it. */
  choose(found) {
    this.chosen = found;
    showFacts(this.part("detail"), this.describe(found), "h3");
    this.draw();
  }

  /** Return the row and item at a position of the drawing; null where there is no row. */
  findAt(x, y) {
    const above = this.layout.narrow ? LABEL_LINE : 2;
    const place = this.layout.places.find(({ top, height }) => y >= top - above && y < top + height + 3);
    if (!place || x < this.layout.gutter) {
      return null;
    }
    const [start, end] = [this.timeAt(x), this.timeAt(x + 1)];
    const known = place.row.isExact[binAt(this.data.edges, start)] === 1;
    return { row: place.row, item: known ? itemAt(place.row, start, (end - start) * 3) : -1, start, end };
  }

  /** Return the description of an item or an interval. */
  describe({ row, item, start, end }) {
    return item >= 0 ? describeItem(this.data, row, item) : describeBins(this.data, row, start, end);
  }
}
