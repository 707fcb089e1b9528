// Theme, glossary terms, keys and links. No text becomes markup here.
(() => {
  "use strict";
  const root = document.documentElement;
  const STORE = "nsyswrap-theme";
  const night = matchMedia("(prefers-color-scheme: dark)");

  // A sandboxed page has no storage, so its theme is not remembered.
  const stored = () => { try { return localStorage.getItem(STORE); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem(STORE, theme); } catch { /* not remembered */ } };
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : night.matches);

  const byId = (id) => document.getElementById(id);
  const announce = (text) => { byId("status").textContent = text; };

  // Open all folded parts around an element.
  function unfold(element) {
    for (let around = element; around; around = around.parentElement) {
      if (around instanceof HTMLDetailsElement) around.open = true;
    }
  }

  // Bring a part of the page into sight.
  function show(element, block = "start") {
    unfold(element);
    element.scrollIntoView({ block });
  }

  function startTheme() {
    const button = byId("theme");
    const show = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      store(root.dataset.theme);
      show();
    });
    night.addEventListener("change", show);
    show();
  }

  // Show the meaning of an underlined term or a heading under the pointer or the focus.
  function startTerms() {
    const tip = byId("tip");
    let owner = null;
    let leaving = 0;
    const hide = () => {
      tip.hidden = true;
      owner?.removeAttribute("aria-describedby");
      owner = null;
    };
    const say = (place, text) => {
      clearTimeout(leaving);
      if (!text || owner === place) return;
      hide();
      owner = place;
      tip.textContent = text;
      tip.hidden = false;
      place.setAttribute("aria-describedby", "tip");
      const at = place.getBoundingClientRect();
      const box = tip.getBoundingClientRect();
      const left = Math.max(12, Math.min(at.left, root.clientWidth - box.width - 12));
      const above = at.bottom + box.height + 12 > innerHeight;
      tip.style.left = `${left + scrollX}px`;
      tip.style.top = `${(above ? at.top - box.height - 6 : at.bottom + 6) + scrollY}px`;
    };
    const show = (place) => say(place, byId(place.dataset.term || place.hash.slice(1))?.querySelector("dd")?.textContent);
    const place = (event) => (event.target instanceof Element ? event.target.closest("a.term, [data-term]") : null);
    const enter = (event) => {
      const found = place(event);
      if (found) show(found);
      else if (tip.contains(event.target)) clearTimeout(leaving);
    };
    const leave = () => { clearTimeout(leaving); leaving = setTimeout(hide, 150); };
    document.addEventListener("mouseover", enter);
    document.addEventListener("mouseout", leave);
    document.addEventListener("focusin", enter);
    document.addEventListener("focusout", hide);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || tip.hidden) return;
      hide();
      event.preventDefault();
    });
    startTaps(place, show, say, () => owner);
  }

  // A tap shows the meaning of a term, or the text of a part of a chart, at the finger; a second tap follows the link.
  function startTaps(place, show, say, owner) {
    let before = null;
    let isTouch = false;
    document.addEventListener("pointerdown", (event) => {
      isTouch = event.pointerType === "touch";
      before = owner();
    });
    document.addEventListener("click", (event) => {
      if (!isTouch || !(event.target instanceof Element)) return;
      const term = place(event);
      const shape = event.target.closest("svg *:has(> title)");
      if (term && before !== term) {
        event.preventDefault();
        show(term);
      } else if (shape && !shape.closest("a")) {
        say(shape, shape.querySelector("title").textContent);
      }
    });
  }

  // A link to a finding, a gap or a section opens its target.
  function startLinks() {
    const arrive = () => {
      let name = "";
      try { name = decodeURIComponent(location.hash.slice(1)); } catch { return; }
      const target = name && byId(name);
      if (!target) return;
      if (target.classList.contains("finding")) {
        const evidence = target.querySelector("details");
        if (evidence) evidence.open = true;
        target.focus({ preventScroll: true });
      }
      show(target);
    };
    addEventListener("hashchange", arrive);
    arrive();
  }

  function startContents() {
    const nav = document.querySelector("nav");
    const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
    const seen = new Set();
    const watch = new IntersectionObserver((entries) => {
      entries.forEach((one) => (one.isIntersecting ? seen.add(one.target.id) : seen.delete(one.target.id)));
      const current = [...links.keys()].find((id) => seen.has(id));
      links.forEach((link, id) => (id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }, { rootMargin: "-15% 0px -55% 0px" });
    links.forEach((_, id) => { const part = byId(id); if (part) watch.observe(part); });
    nav.addEventListener("click", (event) => { if (event.target.closest("a")) nav.hidePopover?.(); });
  }

  function startHelp() {
    const help = byId("help");
    const open = () => { if (!help.open) help.showModal(); };
    byId("keys").addEventListener("click", open);
    byId("help-close").addEventListener("click", () => help.close());
    help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
    return open;
  }

  // Follow an address at once. A browser follows one a moment later, when another key may have been pressed.
  function goTo(address) {
    try { history.replaceState(null, "", address); } catch { return location.replace(address); }
    return dispatchEvent(new HashChangeEvent("hashchange"));
  }

  function toFinding(by) {
    const all = [...document.querySelectorAll(".finding")];
    if (!all.length) return announce("There are no findings.");
    const at = all.findIndex((one) => one.id === location.hash.slice(1));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length];
    goTo(`#${next.id}`);
  }

  // Show the timeline, with what is selected in it, and give it the keys.
  function toTimeline() {
    const part = byId("timeline");
    if (!part) return announce("This page has no timeline.");
    show(part);
    part.querySelector("canvas[tabindex]")?.focus({ preventScroll: true });
  }

  function startKeys(openHelp) {
    const typing = "input, textarea, select, [contenteditable]";
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof Element && event.target.closest(`${typing}, dialog[open]`)) return;
      const acts = { f: () => byId("search")?.focus(), "?": openHelp, n: () => toFinding(1), p: () => toFinding(-1), t: toTimeline, c: () => byId("copy-summary")?.click() };
      const act = Object.hasOwn(acts, event.key) ? acts[event.key] : null;
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  Object.assign(globalThis.nsyswrap, { announce, unfold, show, toTimeline });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".tools").hidden = false;
    startTheme();
    startTerms();
    startLinks();
    startContents();
    startKeys(startHelp());
  });
})();
