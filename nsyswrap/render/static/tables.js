// Sorts, filters, folds and copies tables. Without this script they show all their rows, the most important first.
(() => {
  "use strict";
  const FOLD = 12;

  const { make } = globalThis.nsyswrap;
  // A cut name has the whole name beside it, which is used to filter, sort and copy.
  const textOf = (cell) => (cell.querySelector(".whole") || cell.querySelector("summary") || cell).textContent.trim();
  const valueOf = (cell) => ("v" in cell.dataset ? cell.dataset.v : textOf(cell));

  // RFC 4180; an apostrophe goes before a text that a spreadsheet would run as a formula, as in the CSV report.
  const field = (text, isText) => {
    const safe = isText && /^[=+\-@]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };

  /** Return the row that each row is part of. */
  function parentsOf(rows) {
    const found = new Map();
    const around = [];
    rows.forEach((row) => {
      const depth = Number(row.dataset.depth ?? 0);
      around.length = depth;
      if (depth) found.set(row, around[depth - 1]);
      around.push(row);
    });
    return found;
  }

  /** Return rows so that each is followed by those that are part of it, in their order. */
  function nested(rows, parents) {
    const from = (parent) => rows.filter((row) => parents.get(row) === parent).flatMap((row) => [row, ...from(row)]);
    return from(undefined);
  }

  class Table {
    constructor(table) {
      this.table = table;
      this.body = table.tBodies[0];
      this.first = [...this.body.rows];
      this.rows = [...this.first];
      this.heads = [...table.tHead.rows[0].cells];
      this.words = this.rows.map((row) => [...row.cells].map(textOf).join("\n").toLowerCase());
      this.left = new Set(this.rows);
      this.parents = parentsOf(this.first);
      this.open = new Set();
      this.folded = this.parents.size > 0 || this.rows.length > FOLD + 3;
      this.scroll = table.closest(".scroll");
      this.columns = new Map(this.heads.map((head, at) => [head.dataset.name, at]));
      this.sought = [];
      this.chosen = new Set();
      this.isLimited = false;
      this.handles();
      this.heads.forEach((head, at) => { if (head.dataset.name) this.sortable(head, at); });
      this.unfold();
      this.show();
    }

    /** Let a click fold the rows that are part of a row; at first the first ones are open, as far as a table shows rows. */
    unfold() {
      const inside = new Map();
      this.parents.forEach((parent, row) => inside.set(parent, [...(inside.get(parent) ?? []), row]));
      let count = this.first.length - this.parents.size;
      [...inside].sort(([one], [other]) => one.dataset.depth - other.dataset.depth).forEach(([row, parts]) => {
        const button = make("button", "folds");
        button.setAttribute("aria-label", `Parts of ${row.cells[0].querySelector("bdi").textContent}`);
        button.addEventListener("click", () => this.toggle(row));
        row.cells[0].prepend(button);
        count += parts.length;
        if (count <= FOLD && this.around(row).every((one) => this.open.has(one))) this.open.add(row);
      });
    }

    toggle(row) {
      if (!this.folded) this.open = new Set(this.parents.values());
      this.folded = true;
      if (!this.open.delete(row)) this.open.add(row);
      this.show();
    }

    /** Return the rows that a row is part of. */
    around(row) {
      const parent = this.parents.get(row);
      return parent ? [parent, ...this.around(parent)] : [];
    }

    handles() {
      const caption = this.table.caption;
      const bar = make("div", "handles");
      const title = make("span", "caption", caption.classList.contains("unseen") ? "" : caption.textContent);
      title.setAttribute("aria-hidden", "true");
      caption.classList.add("unseen");
      this.count = make("span", "count");
      this.aside = make("button", "aside", "more columns →");
      this.aside.addEventListener("click", () => this.scroll.scrollBy({ left: this.scroll.clientWidth * 0.8, behavior: "smooth" }));
      const copy = make("button", "copy", "Copy CSV");
      copy.setAttribute("aria-label", `Copy CSV of ${caption.textContent}`);
      copy.addEventListener("click", () => globalThis.nsyswrap.copy(copy, this.csv(), `Copied ${this.left.size} ${this.left.size === 1 ? "row" : "rows"}`));
      bar.append(title, this.count, this.aside, copy);
      this.scroll.before(bar);
      this.none = make("p", "none-left", "No row matches.");
      this.more = make("button", "more");
      this.more.addEventListener("click", () => { this.folded = !this.folded; this.show(); });
      this.scroll.after(this.none, this.more);
    }

    /** Say whether columns are beyond the right edge. */
    measure() {
      const { scrollLeft, clientWidth, scrollWidth } = this.scroll;
      this.aside.classList.toggle("needed", scrollLeft + clientWidth < scrollWidth - 2);
    }

    sortable(head, at) {
      const button = make("button", "sort");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(at));
    }

    sort(at) {
      const head = this.heads[at];
      const isNumber = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : isNumber;
      this.heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const key = (row) => valueOf(row.cells[at]);
      const sign = down ? -1 : 1;
      // Missing values come last in both directions.
      this.rows.sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (isNumber ? Number(a) - Number(b) : order(a, b));
      });
      if (this.parents.size) this.rows = nested(this.rows, this.parents);
      this.body.append(...this.rows);
      this.show();
    }

    /** Return the whole text of a row in a column; empty where the table lacks the column. */
    text(row, column) {
      const at = this.columns.get(column);
      return at === undefined ? "" : textOf(row.cells[at]);
    }

    /** Return the value of a row in a column of numbers; NaN where there is none. */
    number(row, column) {
      const at = this.columns.get(column);
      return at === undefined || !row.cells[at].dataset.v ? NaN : Number(row.cells[at].dataset.v);
    }

    filter(words) {
      this.sought = words;
      this.keep();
      return this.left.size;
    }

    /** Mark the rows that belong to the selection; where `isLimited`, show only these. */
    choose(rows, isLimited) {
      this.chosen = rows;
      this.isLimited = isLimited;
      this.keep();
    }

    keep() {
      const fits = (row, at) => this.sought.every((word) => this.words[at].includes(word)) && (!this.isLimited || this.chosen.has(row));
      this.left = new Set(this.first.filter(fits).flatMap((row) => [row, ...this.around(row)]));
      this.show();
    }

    show() {
      const shown = this.rows.filter((row) => this.left.has(row));
      const isCut = this.sought.length > 0 || this.isLimited;
      const fold = this.folded && !isCut;
      // A few chosen rows are shown wherever they are.
      const isNear = (row) => this.chosen.size <= FOLD && this.chosen.has(row);
      this.rows.forEach((row) => { row.hidden = !this.left.has(row); row.classList.remove("over"); });
      const isOver = this.parents.size ? (row) => !this.around(row).every((one) => this.open.has(one)) : (_, at) => at >= FOLD;
      shown.forEach((row, at) => row.classList.toggle("over", fold && isOver(row, at) && !isNear(row)));
      this.table.querySelectorAll("button.folds").forEach((button) => {
        button.setAttribute("aria-expanded", String(!fold || this.open.has(button.closest("tr"))));
      });
      this.table.toggleAttribute("data-folded", fold);
      this.more.hidden = isCut || (this.rows.length <= FOLD + 3 && !this.parents.size);
      this.more.textContent = fold ? `Show all ${this.rows.length} rows` : this.parents.size ? "Fold the rows" : `Show the first ${FOLD} rows`;
      this.more.setAttribute("aria-expanded", String(!fold));
      this.none.hidden = shown.length > 0;
      const chosen = this.chosen.size ? `${this.chosen.size} of ${this.rows.length} rows selected` : "";
      this.count.textContent = isCut ? `${shown.length} of ${this.rows.length} rows` : chosen;
      this.table.dispatchEvent(new CustomEvent("nsyswrap:shown"));
    }

    csv() {
      // A column without a name holds drawings.
      const named = (_, at) => this.heads[at].dataset.name;
      const lines = [this.heads.filter(named).map((head) => field(head.dataset.name, true)).join(",")];
      this.rows.filter((row) => this.left.has(row)).forEach((row) => {
        const cells = [...row.cells].filter(named);
        lines.push(cells.map((cell) => field(valueOf(cell), !("v" in cell.dataset))).join(","));
      });
      return `${lines.join("\r\n")}\r\n`;
    }

  }

  function startMeasuring(tables) {
    const byScroll = new Map(tables.map((table) => [table.scroll, table]));
    const watch = new ResizeObserver((entries) => entries.forEach(({ target }) => byScroll.get(target).measure()));
    byScroll.forEach((table, scroll) => {
      watch.observe(scroll);
      scroll.addEventListener("scroll", () => table.measure(), { passive: true });
    });
  }

  function startSearch(tables) {
    const box = document.getElementById("search");
    const found = document.getElementById("found");
    const groups = [...document.querySelectorAll("details")].filter((group) => tables.some((one) => group.contains(one.table)));
    let opened = [];
    let at = -1;
    // A folded part with a match is open while it has one.
    const unfold = (searching) => {
      opened.forEach((group) => { group.open = false; });
      const holds = (group) => tables.some((one) => one.sought.length && one.left.size && group.contains(one.table));
      opened = searching ? groups.filter((group) => !group.open && holds(group)) : [];
      opened.forEach((group) => { group.open = true; });
    };
    const seek = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      const counts = tables.map((one) => one.filter(words));
      const rows = counts.reduce((sum, one) => sum + one, 0);
      unfold(words.length > 0);
      found.textContent = words.length ? `${rows} rows in ${counts.filter(Boolean).length} tables` : "";
      at = -1;
    };
    box.addEventListener("input", seek);
    globalThis.nsyswrap.filterTables = (text) => {
      box.value = text.trim();
      seek();
      box.focus();
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        box.value = "";
        seek();
        box.blur();
      } else if (event.key === "Enter") {
        const holding = tables.filter((one) => one.sought.length && one.left.size);
        if (!holding.length) return;
        at = (at + (event.shiftKey ? holding.length - 1 : 1)) % holding.length;
        globalThis.nsyswrap.show(holding[at].scroll.previousElementSibling);
      }
    });
  }

  // Show the whole of a cut name on hover; the page holds it only once.
  function startNames() {
    document.addEventListener("mouseover", (event) => {
      const summary = event.target instanceof Element ? event.target.closest("details.name > summary") : null;
      const whole = summary?.parentElement.querySelector(":scope > .whole");
      if (whole && !summary.title) summary.title = whole.textContent;
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const tables = [...document.querySelectorAll("table.data")].map((table) => new Table(table));
    globalThis.nsyswrap.tables = tables;
    startSearch(tables);
    startMeasuring(tables);
    startNames();
  });
})();
