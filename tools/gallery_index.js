// Shows the cards of the gallery that hold all words and have the chosen finding, model and tensor share.
(() => {
  "use strict";
  const form = document.querySelector("form");
  const cards = [...document.querySelectorAll("article[id]")].map((card) => ({ card, text: card.textContent.toLowerCase() }));
  const read = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim()));
  function show() {
    const { words = "", finding, model, tensor } = read();
    const sought = words.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { card, text } of cards) {
      const { findings, model: own, tensor: share } = card.dataset;
      const fits = sought.every((word) => text.includes(word)) && (!finding || findings.split(" ").includes(finding))
        && (!model || own === model) && (!tensor || share === tensor);
      card.hidden = !fits;
      count += fits;
    }
    for (const part of document.querySelectorAll("main > section:not(.known)")) part.hidden = !part.querySelector("article:not([hidden])");
    form.querySelector("output").textContent = `${count} of ${cards.length} cases`;
  }
  function changed() {
    show();
    try { history.replaceState(null, "", `#${new URLSearchParams(read())}`); } catch { /* a sandboxed page keeps its address */ }
  }
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (form.elements[name]) form.elements[name].value = value;
  form.hidden = false;
  form.addEventListener("input", changed);
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
