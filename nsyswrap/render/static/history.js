// What moved between two runs of a program: two lists, and a table of the parts of a step. No text becomes markup here.
(() => {
  "use strict";
  const { make } = globalThis.nsyswrap;
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  // Parts below this share of all that moved are added up, as in the tables of the changes.
  const LEAST = 0.05;

  // A length of time with three significant digits, as the page has them.
  function duration(ns) {
    const size = Math.abs(ns);
    const [divisor, sign] = UNITS.find(([one]) => size >= one * 0.9995) || UNITS.at(-1);
    const value = size / divisor;
    const digits = divisor === 1 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return `${value.toFixed(digits)} ${sign}`;
  }
  const signed = (ns) => `${ns < 0 ? "-" : "+"}${duration(ns)}`;

  function moves(names, before, after) {
    const all = names.map((name, at) => ({ name, before: before[at], after: after[at], delta: after[at] - before[at] }));
    all.sort((one, other) => Math.abs(other.delta) - Math.abs(one.delta));
    const least = LEAST * all.reduce((sum, one) => sum + Math.abs(one.delta), 0);
    const large = all.filter((one) => Math.abs(one.delta) > least);
    const rest = all.slice(large.length);
    const sum = (key) => rest.reduce((total, one) => total + one[key], 0);
    if (rest.length) large.push({ name: "all other parts", before: sum("before"), after: sum("after"), delta: sum("delta") });
    return large;
  }

  function line(one) {
    const row = make("tr");
    const head = make("th", "", one.name);
    head.scope = "row";
    row.append(head, ...[duration(one.before), duration(one.after), signed(one.delta)].map((text) => make("td", "n", text)));
    return row;
  }

  function start(table) {
    const section = table.closest("section");
    // The table has the newest run first, the chart the oldest.
    const rows = [...table.tBodies[0].rows].sort((one, other) => number(one) - number(other));
    if (rows.length < 2) return;
    const names = table.dataset.names ? table.dataset.names.split("\n") : [];
    const runs = rows.map((row) => ({
      words: row.dataset.words,
      mean: Number(row.dataset.mean),
      parts: row.dataset.parts ? row.dataset.parts.split(" ").map(Number) : [],
    }));
    const box = make("div", "between");
    const choice = make("p");
    const lists = ["from", "to"].map((name, at) => {
      const list = make("select", name);
      list.append(...runs.map((run, place) => new Option(run.words, String(place))));
      list.value = String(at ? runs.length - 1 : 0);
      list.addEventListener("change", show);
      const label = make("label", "", `${name} `);
      label.append(list);
      choice.append(label);
      return list;
    });
    const drawn = make("table", "moves");
    drawn.append(make("caption", "unseen", "What moved between two runs"));
    const heads = drawn.createTHead().insertRow();
    heads.append(...["part of a step", "from", "to", "difference"].map((text, at) => make("th", at ? "n" : "", text)));
    heads.querySelectorAll("th").forEach((head) => { head.scope = "col"; });
    const body = drawn.createTBody();
    const scroll = make("div", "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", `What moved between two runs of ${section.querySelector("h2").textContent}`);
    scroll.append(drawn);
    box.append(make("h3", "", "What moved between two runs"), choice, scroll);
    table.closest("details").before(box);
    function show() {
      const [before, after] = lists.map((list) => runs[Number(list.value)]);
      const whole = { name: "time per step", before: before.mean, after: after.mean, delta: after.mean - before.mean };
      body.replaceChildren(...[whole, ...moves(names, before.parts, after.parts)].map(line));
      const picked = new Set(lists.map((list) => Number(list.value)));
      section.querySelectorAll("figure a").forEach((dot, at) => dot.classList.toggle("picked", picked.has(at)));
    }
    show();
  }
  // The address may name a run that is folded away: show all rows of its table.
  function arrive() {
    const row = document.getElementById(location.hash.slice(1));
    if (!row?.closest("table[data-names]")) return;
    if (row.classList.contains("over")) row.closest(".sheet").querySelector("button.more").click();
    row.scrollIntoView({ block: "center" });
  }
  const number = (row) => Number(row.id.slice(row.id.lastIndexOf("-") + 1));

  addEventListener("hashchange", arrive);
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table[data-names]").forEach(start);
    arrive();
  });
})();
