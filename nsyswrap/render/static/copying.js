// Copies texts: tables, code and the summary. Without this script code can be selected and copied by hand.
(() => {
  "use strict";

  /** Return a new element with a class and a text; a text never becomes markup. */
  function make(tag, className = "", text = "") {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    if (tag === "button") made.type = "button";
    return made;
  }

  async function toClipboard(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = make("textarea", "unseen");
      area.value = text;
      // Text outside an open dialog cannot be selected.
      (document.querySelector("dialog[open]") || document.body).append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  // Say on a button, for two seconds, what happened.
  function tell(button, words) {
    const label = (button.dataset.label ??= button.textContent);
    button.textContent = words;
    document.getElementById("status").textContent = words;
    setTimeout(() => { button.textContent = label; }, 2000);
  }

  const copy = async (button, text, done) => tell(button, (await toClipboard(text)) ? done : "Could not copy");

  function addButton(code) {
    const button = make("button", "clip", "Copy");
    button.addEventListener("click", () => copy(button, code.textContent, "Copied"));
    code.parentElement.before(button);
  }

  // A line of Python is copied by a click on it.
  function startPlaces() {
    document.addEventListener("click", ({ target }) => {
      const place = target instanceof Element ? target.closest("button.place") : null;
      if (place) copy(place, place.dataset.label ?? place.textContent, "Copied");
    });
  }

  function startSummary() {
    const button = document.getElementById("copy-summary");
    const summary = document.getElementById("summary");
    if (!button || !summary) return;
    button.hidden = false;
    button.addEventListener("click", () => copy(button, summary.content.textContent, "Copied"));
  }

  globalThis.nsyswrap = { copy, make, tell };
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("pre > code").forEach(addButton);
    startPlaces();
    startSummary();
  });
})();
