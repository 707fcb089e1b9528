// Starts the timeline of the page.

/** Start the timeline; where the browser cannot unpack its data, the strips stay. */
async function startTimeline() {
  const root = document.querySelector('[data-tl="live"]');
  if (!root || typeof DecompressionStream === "undefined") {
    return;
  }
  const data = await loadTimeline(document.getElementById("timeline-data").textContent);
  setFolds(data);
  root.hidden = false;
  document.querySelector('[data-tl="still"]').classList.add("tl-print-only");
  const timeline = new TimelineView(root, data);
  listenToKeys(timeline);
  listenToWheel(timeline);
  listenToMap(timeline);
  listenToButtons(timeline);
  listenToPage(timeline);
  new Pointers(timeline);
  followSelection(timeline);
  followAddress(timeline);
  startStep(data);
  performance.mark("timeline-ready");
}

startTimeline();
