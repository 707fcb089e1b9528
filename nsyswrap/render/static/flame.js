// The flame graph: a click or Enter makes a box fill the width, the arrows move, Escape goes back to all.
(() => {
  "use strict";

  /** Return a box as numbers; boxes keep their place in the whole, whatever is shown. */
  function boxOf(element) {
    const [x, width] = [Number(element.dataset.x), Number(element.dataset.width)];
    return { element, x, end: x + width, width, y: Number(element.getAttribute("y")) };
  }

  class Flame {
    constructor(root) {
      this.root = root;
      this.boxes = [...root.querySelectorAll(".box")].map(boxOf);
      this.whole = this.boxes[0];
      this.said = root.querySelector('[data-flame="said"]');
      root.querySelector(".flame-tools").hidden = false;
      root.querySelector('[data-flame="all"]').addEventListener("click", () => this.show(this.whole));
      for (const box of this.boxes) {
        box.element.setAttribute("role", "button");
        box.element.setAttribute("aria-label", box.element.querySelector("title").textContent);
        box.element.setAttribute("tabindex", -1);
        box.element.addEventListener("click", () => this.show(box));
        box.element.addEventListener("focus", () => this.say(box));
        box.element.addEventListener("pointerenter", () => this.say(box));
        box.element.addEventListener("keydown", (event) => this.press(event, box));
      }
      this.show(this.whole);
    }

    /** Write what a box is; a root cause leads to its finding. */
    say({ element }) {
      const link = globalThis.nsyswrap.make("a", "", "its finding");
      link.href = `#${element.dataset.finding}`;
      this.said.replaceChildren(element.querySelector("title").textContent, " ", ...(element.dataset.finding ? [link] : []));
    }

    /** Return whether a box is above or below another one, or the same. */
    isOfOneStack(one, other) {
      const [upper, lower] = one.y <= other.y ? [one, other] : [other, one];
      return lower.x >= upper.x - 0.002 && lower.end <= upper.end + 0.002;
    }

    /** Make a box fill the width; those above it do so as well, and those beside it are not drawn. */
    show(chosen) {
      const scale = 100 / chosen.width;
      this.shown = this.boxes.filter((box) => this.isOfOneStack(chosen, box));
      for (const box of this.boxes) {
        const isHere = this.shown.includes(box);
        const isAbove = isHere && box.y < chosen.y;
        box.element.style.display = isHere ? "" : "none";
        box.element.setAttribute("x", `${isAbove ? 0 : (box.x - chosen.x) * scale}%`);
        box.element.setAttribute("width", `${isAbove ? 100 : box.width * scale}%`);
        box.element.setAttribute("tabindex", box === chosen ? 0 : -1);
      }
      this.chosen = chosen;
      this.say(chosen);
    }

    /** Return the box that a key leads to from another one; undefined where there is none. */
    next(key, from) {
      const row = this.shown.filter((box) => box.y === from.y);
      const below = this.shown.filter((box) => box.y > from.y && this.isOfOneStack(from, box));
      const above = this.shown.filter((box) => box.y < from.y && this.isOfOneStack(from, box));
      return {
        ArrowDown: () => below[0], ArrowUp: () => above[above.length - 1], ArrowRight: () => row[row.indexOf(from) + 1],
        ArrowLeft: () => row[row.indexOf(from) - 1], Home: () => this.shown[0],
      }[key]?.();
    }

    /** Act on a key of a box; keys that mean nothing here stay those of the page. */
    press(event, box) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") {
        this.show(box);
      } else if (event.key === "Escape" && this.chosen !== this.whole) {
        this.show(this.whole);
      } else {
        const found = this.next(event.key, box);
        if (!found) return;
        found.element.setAttribute("tabindex", 0);
        found.element.focus();
      }
      event.preventDefault();
      event.stopPropagation();
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.getElementById("flame");
    if (root) new Flame(root);
  });
})();
