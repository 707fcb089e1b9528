// The timeline as a reader moves in it: by mouse, touch and keys, by links to a time or a gap.

const SHORTEST = 50;
const SETTLE_MS = 120;
const LISTED_GAPS = 8;

/** What a reader sees and has chosen, and how that changes. */
class TimelineView {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.bounds = { start: data.edges[0], end: data.edges[data.edges.length - 1] };
    this.view = { start: data.window[0], end: data.window[1] };
    this.selection = null;
    this.chosen = null;
    this.rowIndex = -1;
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
      return; // on paper the strips stand in its place
    }
    this.palette = readPalette(this.root);
    this.layout = layOut(this.data, this.canvas.clientWidth);
    this.canvas.style.height = `${this.layout.height}px`;
    this.draw();
  }

  /** Draw before the next frame, and say what is seen once it stands still. */
  draw() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.drawNow();
      });
    }
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.say(), SETTLE_MS);
  }

  /** Draw at once. */
  drawNow() {
    paintTimeline(this.canvas, this.data, this.palette, this.layout, this);
    paintMap(this.map, this.data, this.palette, this.view);
    this.canvas.dataset.start = this.view.start;
    this.canvas.dataset.end = this.view.end;
  }

  /** Show the ledger of the selection or else of the view, and where the drawing is exact. */
  say() {
    const what = this.selection ? "Selected" : "In view";
    showLedger(this.part("ledger"), this.data, this.selection ?? this.view, what);
    const { start, end } = this.view;
    const [first, last] = [binAt(this.data.edges, start), binAt(this.data.edges, end)];
    const rows = this.data.rows.filter((row) => row.kind !== "counter");
    const exact = rows.every((row) => !row.isExact.subarray(first, last + 1).includes(0));
    const badge = this.part("badge");
    badge.textContent = exact ? "exact" : "binned where dotted";
    badge.classList.toggle("tl-binned", !exact);
    this.part("where").textContent = `${moment(start, end - start)} to ${moment(end, end - start)} · ${duration(Math.round(end - start))}`;
  }

  /** Return the time at a place in the drawing, in pixels from its left. */
  timeAt(x) {
    const width = this.canvas.clientWidth - this.layout.gutter;
    const part = (x - this.layout.gutter) / width;
    return this.view.start + part * (this.view.end - this.view.start);
  }

  /** Look at a stretch, kept inside what there is. */
  look(start, end) {
    const whole = this.bounds.end - this.bounds.start;
    const length = Math.min(Math.max(end - start, Math.min(SHORTEST, whole)), whole);
    const middle = (start + end) / 2;
    const from = Math.min(Math.max(middle - length / 2, this.bounds.start), this.bounds.end - length);
    this.view = { start: from, end: from + length };
    this.draw();
  }

  /** Zoom by a factor; the time at the anchor stays where it is. */
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

  /** Select a stretch; its ledger is shown, and the address of the page leads to it. */
  select(start, end) {
    const [from, to] = [Math.min(start, end), Math.max(start, end)];
    this.selection = { start: Math.max(from, this.bounds.start), end: Math.min(to, this.bounds.end) };
    this.draw();
  }

  /** Look at a stretch with some room around it, and select it. */
  show(start, end) {
    const room = (end - start) * 0.15;
    this.select(start, end);
    this.look(start - room, end + room);
  }

  /** Let go of what is selected and chosen. */
  clear() {
    this.selection = null;
    this.chosen = null;
    showGaps(this.part("detail"), this.data, LISTED_GAPS);
    this.draw();
  }

  /** Look at what is selected or chosen, else at the window of the report. */
  fit() {
    const [start, end] = this.data.window;
    const item = this.chosen && this.chosen.item >= 0 ? this.chosen : null;
    const own = item ? { start: item.row.start[item.item], end: item.row.end[item.item] } : null;
    const wanted = this.selection ?? own ?? { start, end };
    const room = wanted === this.selection || own ? (wanted.end - wanted.start) * 0.15 : 0;
    this.look(wanted.start - room, wanted.end + room);
  }

  /** Go to the next or previous of the longest gaps, by time. */
  stepGap(direction) {
    const middle = this.selection ? (this.selection.start + this.selection.end) / 2 : (this.view.start + this.view.end) / 2;
    const gaps = this.data.gaps.map(([, start, end]) => ({ start, end, at: (start + end) / 2 }));
    const ahead = gaps.filter(({ at }) => (at - middle) * direction > 0.5);
    ahead.sort((one, other) => (one.at - other.at) * direction);
    if (ahead.length) {
      this.show(ahead[0].start, ahead[0].end);
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

  /** Choose an item, or a stretch of a row of which no items are there, and tell about it. */
  choose(found) {
    this.chosen = found;
    showFacts(this.part("detail"), this.describe(found), "h3");
    this.draw();
  }

  /** Return what lies at a place in the drawing; null where no row is. */
  findAt(x, y) {
    const place = this.layout.places.find(({ top, height }) => y >= top - 2 && y < top + height + 3);
    if (!place || x < this.layout.gutter) {
      return null;
    }
    const [start, end] = [this.timeAt(x), this.timeAt(x + 1)];
    const known = place.row.isExact[binAt(this.data.edges, start)] === 1;
    return { row: place.row, item: known ? itemAt(place.row, start, (end - start) * 3) : -1, start, end };
  }

  /** Return what is known of something found. */
  describe({ row, item, start, end }) {
    return item >= 0 ? describeItem(this.data, row, item) : describeBins(this.data, row, start, end);
  }
}
