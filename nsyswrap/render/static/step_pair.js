// Draws the steps of a page that has no timeline one below the other, on one scale.

/** Draw all steps of the page. */
async function drawSteps() {
  const figures = [...document.querySelectorAll(".drawn-step")];
  const steps = await Promise.all(figures.map(async (figure) => {
    const text = figure.querySelector("script").textContent;
    const { span: [start, end], inferred } = JSON.parse(text);
    return { figure, data: await loadTimeline(text), say: { inferred, findings: [] }, span: { start, end } };
  }));
  const scale = Math.max(...steps.map(({ span }) => span.end - span.start));
  for (const { figure, data, say, span } of steps) {
    const model = stepModel(data, say, data.rows.find(({ kind }) => kind === "gpu"), span, scale);
    const drawing = stepDrawing(model);
    figure.append(drawing);
    new StepPointer(data, figure, drawing, model);
  }
}

document.addEventListener("DOMContentLoaded", drawSteps);
