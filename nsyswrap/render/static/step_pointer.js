// What is under the pointer in the drawing of a step.

/** Shows what is under the pointer in a drawing, and the way of a kernel from its launch. */
class StepPointer {
  constructor(data, figure, drawing, model) {
    Object.assign(this, { data, drawing, model });
    this.tip = element("div", "tl-tip");
    this.tip.hidden = true;
    figure.append(this.tip);
    drawing.addEventListener("pointermove", (event) => this.point(event));
    drawing.addEventListener("pointerdown", (event) => this.point(event));
    drawing.addEventListener("pointerleave", () => this.clear());
  }

  /** Return the row and the item at a position of the drawing; null where there is none. */
  find(x, y) {
    const { lanes, span, scale, streams } = this.model;
    const lane = lanes.find((one) => y >= one.y && y < one.y + one.height);
    const pixel = scale / this.drawing.clientWidth;
    const time = span.start + x * pixel;
    if (!lane || time >= span.end) {
      return null;
    }
    const rows = lane.key === "compute" || lane.key.includes("cop") ? [...streams, lane.row] : [lane.row];
    for (const row of rows) {
      const item = itemAt(row, time, pixel);
      if (item >= 0 && (row.kind !== "gpu" || lane.parts.some(({ key }) => key === row.classes[row.code[item]]))) {
        return { row, item, lane };
      }
    }
    return null;
  }

  /** Show what is under the pointer. */
  point(event) {
    this.clear();
    const box = this.drawing.getBoundingClientRect();
    const found = this.find(event.clientX - box.left, event.clientY - box.top);
    if (!found) {
      return;
    }
    showFacts(this.tip, describeItem(this.data, found.row, found.item), "p");
    this.tip.hidden = false;
    const around = this.tip.offsetParent.getBoundingClientRect();
    const room = around.width - this.tip.offsetWidth;
    this.tip.style.left = `${Math.min(Math.max(event.clientX - around.left + 14, 0), Math.max(room, 0))}px`;
    this.tip.style.top = `${event.clientY - around.top + 18}px`;
    this.drawWay(found);
  }

  /** Draw the arrow from the launch of a kernel to its start, where its thread has a lane. */
  drawWay({ row, item, lane }) {
    const thread = row.kind === "stream" ? this.data.threads[row.details.thread[item] - 1] : null;
    const from = thread && this.model.lanes.find((one) => one.row === thread);
    const wait = from ? row.details.latency[item] : 0;
    if (from && row.start[item] - wait >= this.model.span.start) {
      this.way = arrowDrawing({ wait, start: row.start[item], lane: from, compute: lane }, this.model);
      this.way.classList.add("st-way");
      this.drawing.append(this.way);
    }
  }

  /** Take both away. */
  clear() {
    this.tip.hidden = true;
    this.way?.remove();
  }
}
