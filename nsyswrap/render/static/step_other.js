// Pins the typical step of another run: reads its page from a file that the user chooses, which stays on the machine.

const NO_PAGE = "This file is not a page of nsyswrap with a timeline.";
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'" };

/** Return the text of an element of a page, found by the start of its tag; empty where it is missing. */
function elementText(page, tag, end) {
  const start = page.indexOf(tag);
  const from = start < 0 ? -1 : start + tag.length;
  return from < 0 ? "" : page.slice(from, page.indexOf(end, from));
}

/** Return the typical step of another page, with its own timeline; null where the text is no such page. */
async function stepOfPage(page, file) {
  const packed = elementText(page, '<script type="application/json" id="timeline-data">', "<\/script>");
  const said = elementText(page, '<script type="application/json" id="step-data">', "<\/script>");
  if (!packed || !said) {
    return null;
  }
  const data = await loadTimeline(packed);
  const gpu = data.rows.find(({ kind }) => kind === "gpu");
  const { row, order } = gpu ? stepsOf(data, gpu) : { row: null, order: [] };
  if (!order.length) {
    return null;
  }
  const title = elementText(page, "<title>", " · nsyswrap</title>").replace(/&(?:amp|lt|gt|#34|#39);/g, (one) => ENTITIES[one]);
  // Numbers of findings lead into this page, so the step of another one has none.
  const say = { ...JSON.parse(said), findings: [], problem: "" };
  return { data, say, gpu, row, item: order[(order.length - 1) >> 1], of: title ? `${title}, ${file}` : file };
}

/** Let the user choose the page of another run, and pin its typical step. */
function listenToOtherRuns(picture) {
  const input = picture.part("other");
  picture.part("other-run").addEventListener("click", () => input.click());
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (!file) {
      return;
    }
    const found = await stepOfPage(await file.text(), file.name).catch(() => null);
    input.value = "";
    if (found) {
      picture.pin(found);
    } else {
      picture.part("said").textContent = NO_PAGE;
    }
  });
}
