// The selection of the page and its address. Each part selects with `nsyswrap.selection.select`, or dispatches the event
// `nsyswrap:select` on the document itself, and follows that event. Its detail is { kind, id, start_ns, end_ns }: kind is
// step, window, kernel, finding, phase, rank or range, and empty for no selection; start and end are null where it is not
// an interval. A part with an address of its own for a selection gives it as `address`.
(() => {
  "use strict";
  const { nsyswrap } = globalThis;
  const EVENT = "nsyswrap:select";
  const NOTHING = Object.freeze({ kind: "", id: "", start_ns: null, end_ns: null });
  const SPAN = /^#t=(-?\d+(?:\.\d+)?)(s?)-(-?\d+(?:\.\d+)?)(s?)$/;
  const NAMED = /^#(phase|rank|range)=(.+)$/;
  let current = NOTHING;

  /** Return eight digits for a name: FNV-1a of its bytes. */
  function digits(name) {
    let hash = 2166136261;
    for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 16777619);
    return (hash >>> 0).toString(16).padStart(8, "0");
  }

  /** Return the address of a selection. */
  function addressOf({ kind, id, start_ns: start, end_ns: end, address }) {
    if (address) return address;
    if (start !== null && end !== null && kind !== "finding") return `#t=${start}-${end}`;
    if (kind === "finding") return `#${id}`;
    return kind === "kernel" ? `#kernel=${digits(id)}` : `#${kind}=${encodeURIComponent(id)}`;
  }

  /** Return the interval that an address names, in ns, or in s with a decimal point or the unit s; null for none. */
  function spanIn(hash) {
    const found = SPAN.exec(hash);
    if (!found) return null;
    const [, start, unit, end, other] = found;
    const ns = (text, one) => Math.round(Number(text) * (one || text.includes(".") ? 1e9 : 1));
    const [from, to] = [ns(start, unit), ns(end, other)];
    return to > from ? nsyswrap.things.interval(from, to) : null;
  }

  /** Return the selection that an address names; null for none. */
  function read(hash = location.hash) {
    const { things } = nsyswrap;
    const span = spanIn(hash);
    if (span) return span;
    const kernel = /^#kernel=([0-9a-f]{8})$/.exec(hash);
    if (kernel) {
      const name = [...things.kernels()].find((one) => digits(one) === kernel[1]);
      return name === undefined ? null : things.plain("kernel", name);
    }
    let text = "";
    try { text = decodeURIComponent(hash); } catch { return null; }
    const named = NAMED.exec(text);
    if (named) return things[`${named[1]}s`]().has(named[2]) ? things.plain(named[1], named[2]) : null;
    const element = document.getElementById(text.slice(1));
    if (element?.classList.contains("finding")) return things.plain("finding", element.id);
    const { start, end } = element?.dataset ?? {};
    return start === undefined || end === undefined ? null : things.interval(Number(start), Number(end));
  }

  const isSame = (one, other) => Boolean(one && other) && one.kind === other.kind && one.id === other.id && one.start_ns === other.start_ns;

  /** Write the selection into the address; without a selection, any other address stays. */
  function write() {
    const there = read();
    if (isSame(there, current) || (!current.kind && !there)) return;
    const address = current.kind ? addressOf(current) : location.href.split("#")[0];
    try { history.replaceState(null, "", address); } catch { /* a sandboxed page keeps its address */ }
  }

  const select = (detail) => document.dispatchEvent(new CustomEvent(EVENT, { detail }));
  const clear = () => { if (current.kind) select(NOTHING); };

  // Runs before all other listeners, since this script comes first.
  document.addEventListener(EVENT, (event) => {
    const { kind = "", id = "", start_ns: start = null, end_ns: end = null, address = "" } = event.detail ?? {};
    current = kind ? Object.freeze({ kind, id: String(id), start_ns: start, end_ns: end, address }) : NOTHING;
    write();
  });

  /** Follow the address of the page. A link to any other part keeps the selection, which the address then names again. */
  function follow(event) {
    const found = read();
    if (found) {
      select(found);
      // A row or a finding is an element of the page; the browser and the page's links go there.
      if (/^#(t|kernel|phase|rank|range)=/.test(location.hash)) nsyswrap.selection.reveal(found);
    } else if (event && current.kind && document.getElementById(location.hash.slice(1))) {
      write();
    }
  }

  /** Follow the address again once the timeline is there, which knows more kernels and steps. */
  function followTimeline() {
    const found = read() ?? (current.kind ? current : null);
    if (!found) return;
    select(found);
    if (/^#t=/.test(location.hash)) nsyswrap.selection.reveal(found);
  }

  function startEscape() {
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog[open]");
      if (event.key !== "Escape" || event.defaultPrevented || typing || !current.kind) return;
      event.preventDefault();
      clear();
    });
  }

  nsyswrap.selection = { NOTHING, EVENT, select, clear, addressOf, current: () => current, reveal: () => {} };
  document.addEventListener("DOMContentLoaded", () => {
    startEscape();
    addEventListener("hashchange", follow);
    document.addEventListener("nsyswrap:timeline", followTimeline);
    // The other parts of the page start first.
    queueMicrotask(() => follow(null));
  });
})();
