// Mouse, touch, keys, buttons and the address of the page: how each of them moves the timeline.

const ZOOM = 1.5;
const PAN = 0.2;
const MOVED = 4;

/** Follow an address that counts the longest gaps, such as `#gap=3`; the page's selection follows all others. */
function followAddress(timeline) {
  const gap = /^#gap=(\d+)$/.exec(location.hash);
  const found = gap && timeline.data.gaps[gap[1] - 1];
  if (found) {
    selectInterval(found[1], found[2]);
    globalThis.nsyswrap.show(timeline.root.closest("section") ?? timeline.root);
  }
}

/** Return the action of each key; letters are identified by their position on the keyboard. */
function keysOf(timeline) {
  const zoomIn = () => timeline.zoom(1 / ZOOM, timeline.anchor());
  const zoomOut = () => timeline.zoom(ZOOM, timeline.anchor());
  const [left, right] = [() => timeline.pan(-PAN), () => timeline.pan(PAN)];
  return {
    KeyW: zoomIn, Equal: zoomIn, NumpadAdd: zoomIn, KeyS: zoomOut, Minus: zoomOut, NumpadSubtract: zoomOut,
    KeyA: left, ArrowLeft: left, KeyD: right, ArrowRight: right,
    ArrowUp: () => timeline.stepRow(-1), ArrowDown: () => timeline.stepRow(1),
    Comma: () => timeline.stepItem(-1), Period: () => timeline.stepItem(1), Enter: () => timeline.fit(),
    KeyF: () => timeline.fit(), Digit0: () => timeline.look(...timeline.data.window), Home: () => timeline.look(...timeline.data.window),
    KeyN: () => timeline.stepGap(1), KeyP: () => timeline.stepGap(-1), Escape: () => timeline.clear(),
    KeyT: () => timeline.pinRow(), KeyO: () => timeline.toggleFolds(),
    BracketLeft: () => stepPlace(timeline, -1), BracketRight: () => stepPlace(timeline, 1),
  };
}

const POINTED_KEYS = new Set(["KeyW", "KeyA", "KeyS", "KeyD"]);

/** Listen to keys while the drawing has the focus; those that zoom and move work where the pointer is, too. */
function listenToKeys(timeline) {
  const keys = keysOf(timeline);
  const signs = { "+": "Equal", "-": "Minus", ",": "Comma", ".": "Period", "[": "BracketLeft", "]": "BracketRight" };
  const isCommand = (event) => event.ctrlKey || event.metaKey || event.altKey;
  timeline.canvas.addEventListener("keydown", (event) => {
    const action = keys[signs[event.key] ?? event.code];
    if (action && !isCommand(event)) {
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog[open]");
    if (timeline.pointer !== null && POINTED_KEYS.has(event.code) && !typing && !isCommand(event)) {
      event.preventDefault();
      keys[event.code]();
    }
  });
}

/** Zoom with Ctrl and the wheel, pan with Shift or sideways; otherwise the wheel scrolls the page. */
function listenToWheel(timeline) {
  timeline.canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      timeline.zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.004), timeline.timeAt(event.offsetX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      timeline.pan(sideways / timeline.canvas.clientWidth);
    } else {
      return;
    }
    event.preventDefault();
  }, { passive: false });
}

/** Follow fingers and the mouse: one pointer selects or pans, two zoom. */
class Pointers {
  constructor(timeline) {
    this.timeline = timeline;
    this.down = new Map();
    const { canvas } = timeline;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => this.down.clear());
    canvas.addEventListener("pointerleave", (event) => {
      timeline.pointer = null;
      // A finger leaves when it is lifted, and then wants to read.
      if (event.pointerType === "mouse") {
        this.tip(null);
      }
    });
    document.addEventListener("pointerdown", (event) => {
      if (event.target !== canvas) {
        this.tip(null);
      }
    });
    canvas.addEventListener("dblclick", () => timeline.fit());
  }

  /** Start a selection, a pan or a zoom when a button or finger goes down. */
  press(event) {
    if (event.button !== 0) {
      return;
    }
    this.down.set(event.pointerId, event.offsetX);
    this.timeline.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    this.begun = { x, snapped: snapped(this.timeline, x, y), view: { ...this.timeline.view } };
    this.began = [...this.down.values()];
    this.moved = this.down.size > 1;
    this.pans = this.timeline.pans !== event.shiftKey;
    this.tip(null);
  }

  /** Continue it when a pointer moves; without a button down, show what is under the mouse. */
  move(event) {
    this.timeline.pointer = event.pointerType === "mouse" ? event.offsetX : null;
    this.timeline.canvas.classList.toggle("tl-names", !this.down.size && Boolean(actionAt(this.timeline, event.offsetX, event.offsetY)));
    if (!this.down.has(event.pointerId)) {
      if (event.pointerType === "mouse") {
        this.tip(event);
      }
      return;
    }
    this.down.set(event.pointerId, event.offsetX);
    this.moved ||= Math.abs(event.offsetX - this.begun.x) > MOVED;
    if (this.down.size === 2) {
      this.pinch();
    } else if (this.moved && this.pans) {
      this.drag(event.offsetX);
    } else if (this.moved) {
      this.timeline.select(this.begun.snapped, snapped(this.timeline, event.offsetX, event.offsetY));
    }
  }

  /** Move the drawing with the pointer. */
  drag(x) {
    const { view } = this.begun;
    const width = this.timeline.canvas.clientWidth - this.timeline.layout.gutter;
    const part = (this.begun.x - x) / width;
    this.timeline.view = { ...view };
    this.timeline.pan(part);
  }

  /** Zoom by the distance of two fingers, around the time between them. */
  pinch() {
    const { view } = this.begun;
    const [before, now] = [this.began, [...this.down.values()]];
    const factor = Math.abs(before[0] - before[1]) / Math.max(Math.abs(now[0] - now[1]), 8);
    this.timeline.view = { ...view };
    this.timeline.zoom(factor, this.timeline.timeAt((before[0] + before[1]) / 2));
  }

  /** End it when a button or finger goes up; without a movement it was a click. */
  release(event) {
    if (!this.down.delete(event.pointerId)) {
      return;
    }
    if (!this.moved) {
      const action = actionAt(this.timeline, event.offsetX, event.offsetY);
      const found = action ? null : this.timeline.findAt(event.offsetX, event.offsetY);
      if (action) {
        action();
      } else if (found) {
        selectItem(this.timeline, found);
        this.tip(event.pointerType === "mouse" ? null : event);
      } else {
        this.timeline.clear();
      }
    } else if (!this.pans) {
      const { start, end } = this.timeline.selection;
      selectOwn(() => selectInterval(Math.round(start), Math.round(end)));
    }
  }

  /** Show a description of what is under the mouse. */
  tip(event) {
    const tip = this.timeline.part("tip");
    const found = event && this.timeline.findAt(event.offsetX, event.offsetY);
    tip.hidden = !found;
    if (found) {
      showFacts(tip, this.timeline.describe(found), "p");
      const room = this.timeline.canvas.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.min(Math.max(event.offsetX + 14, 0), Math.max(room, 0))}px`;
      // Above the pointer where there is no room below it on the screen.
      const isLow = event.clientY + tip.offsetHeight + 24 > window.innerHeight;
      tip.style.top = `${isLow ? event.offsetY - tip.offsetHeight - 12 : event.offsetY + 18}px`;
    }
  }
}

/** Move the view to the pressed position of the overview strip. */
function listenToMap(timeline) {
  const go = (event) => {
    if (event.buttons) {
      const { start, end } = timeline.bounds;
      const at = start + (event.offsetX / timeline.map.clientWidth) * (end - start);
      const half = (timeline.view.end - timeline.view.start) / 2;
      timeline.look(at - half, at + half);
    }
  };
  timeline.map.addEventListener("pointerdown", (event) => {
    timeline.map.setPointerCapture(event.pointerId);
    go(event);
  });
  timeline.map.addEventListener("pointermove", go);
}

/** Connect the buttons with the same actions as the keys. */
function listenToButtons(timeline) {
  const actions = {
    in: () => timeline.zoom(1 / ZOOM), out: () => timeline.zoom(ZOOM), left: () => timeline.pan(-PAN),
    right: () => timeline.pan(PAN), fit: () => timeline.look(...timeline.data.window),
    all: () => timeline.look(timeline.bounds.start, timeline.bounds.end),
    previous: () => timeline.stepGap(-1), next: () => timeline.stepGap(1),
  };
  for (const [name, action] of Object.entries(actions)) {
    timeline.part(name).addEventListener("click", action);
  }
  const mode = timeline.part("mode");
  const show = () => mode.setAttribute("aria-pressed", String(timeline.pans));
  mode.addEventListener("click", () => {
    timeline.pans = !timeline.pans;
    show();
  });
  show();
}

/** Draw again when the page changes its size or its colours. */
function listenToPage(timeline) {
  new ResizeObserver(() => timeline.refit()).observe(timeline.root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.refit());
  new MutationObserver(() => timeline.refit()).observe(document.documentElement, { attributes: true });
  window.addEventListener("hashchange", () => followAddress(timeline));
}
