// The summary as a picture, drawn from what the page shows: verdict, step now and the first cards, 1200 by 630 pixels.
(() => {
  "use strict";
  const [WIDTH, HEIGHT, EDGE] = [1200, 630, 56];
  const { nsyswrap } = globalThis;
  const style = (element) => getComputedStyle(element);
  const textOf = (element) => (element?.textContent ?? "").replace(/\s+/g, " ").trim();

  /** Return the lines of a text that fit into a width; the last one ends in a sign where text is left out. */
  function wrapped(pen, text, width, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.length > most ? [...lines.slice(0, most - 1), `${lines[most - 1]} …`] : lines;
  }

  /** Write a text and return the height below it. */
  function write(pen, text, x, y, { size = 20, weight = 400, colour, width = WIDTH - EDGE - x, most = 1 }) {
    pen.font = `${weight} ${size}px system-ui, sans-serif`;
    pen.fillStyle = colour;
    const lines = wrapped(pen, text, width, most);
    lines.forEach((line, at) => pen.fillText(line, x, y + size + at * size * 1.3, width));
    return y + lines.length * size * 1.3;
  }

  /** Return the colour of a part of a bar; that of idle time is a pattern, whose ground counts. */
  function fillOf(shape) {
    const fill = style(shape).fill;
    const pattern = /url\("?#([\w-]+)"?\)/.exec(fill);
    return pattern ? style(document.querySelector(`#${pattern[1]} rect`)).fill : fill;
  }

  /** Draw the bar of the step now and its legend; return the height below. A title reads "compute: 16 ms, 87.6 %". */
  function drawStep(pen, y, colours) {
    const width = WIDTH - 2 * EDGE;
    const share = (shape, name) => (Number.parseFloat(shape.getAttribute(name)) || 0) / 100;
    const shapes = [...document.querySelectorAll(".hero .bar:first-of-type > rect")];
    if (!shapes.length) return y;
    const top = write(pen, textOf(document.querySelector(".hero .scale p")), EDGE, y, { colour: colours.soft }) + 8;
    let [x, below] = [EDGE, top];
    for (const shape of shapes) {
      pen.fillStyle = fillOf(shape);
      pen.fillRect(EDGE + share(shape, "x") * width, top, share(shape, "width") * width, 44);
      const label = textOf(shape.querySelector("title")).replace(/: [^:]*, /, " ");
      pen.font = "400 20px system-ui, sans-serif";
      const wide = pen.measureText(label).width + 24;
      if (x + wide > WIDTH - EDGE) [x, below] = [EDGE, below + 30];
      pen.fillRect(x, below + 60, 16, 16);
      write(pen, label, x + 24, below + 54, { colour: colours.ink });
      x += wide + 30;
    }
    return below + 108;
  }

  /** Draw what the first cards save, and the step then. */
  function drawCards(pen, y, colours) {
    [...document.querySelectorAll(".finding")].slice(0, 3).forEach((card, at) => {
      const top = y + at * 42;
      const word = (name, x, options) => write(pen, textOf(card.querySelector(name)), EDGE + x, top, options);
      word(".saving", 0, { weight: 600, colour: colours.ink, width: 240 });
      word(".then", 260, { colour: colours.ink });
    });
  }

  /** Return a canvas with the picture, in the colours of the page. */
  function draw() {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [WIDTH, HEIGHT];
    const pen = canvas.getContext("2d");
    const colours = {
      ground: style(document.body).backgroundColor, ink: style(document.body).color,
      soft: style(document.querySelector(".window") ?? document.body).color,
      compute: style(document.documentElement).getPropertyValue("--compute").trim(),
    };
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, WIDTH, HEIGHT);
    const about = [...document.querySelectorAll(".about dd")].slice(0, 2).map(textOf).join(", ");
    const head = write(pen, `${textOf(document.querySelector("h1"))}: ${about}`, EDGE, 36, { colour: colours.soft });
    const below = write(pen, textOf(document.querySelector(".verdict > p")), EDGE, head + 14, { size: 34, weight: 700, colour: colours.ink, most: 4 });
    drawCards(pen, drawStep(pen, below + 16, colours), colours);
    write(pen, "nsyswrap", EDGE, HEIGHT - 44, { size: 18, weight: 700, colour: colours.compute });
    return canvas;
  }

  /** Copy the picture; save it as a file where the browser copies no pictures. Return what happened. */
  async function copy() {
    const blob = await new Promise((done) => { draw().toBlob(done, "image/png"); });
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
      return "Copied";
    } catch {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = "nsyswrap-summary.png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      return "Saved as a file";
    }
  }

  nsyswrap.drawSummary = draw;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("copy-picture");
    button.hidden = false;
    button.addEventListener("click", async () => nsyswrap.tell(button, await copy()));
  });
})();
