// The typical step of the page: a slider to any other step, a second step pinned below it, and its address.

const SELECT = "nsyswrap:select";

/** The step that is shown, the one that is pinned, and the actions that change them. */
class StepPicture {
  constructor(root, data) {
    this.data = data;
    this.say = JSON.parse(document.getElementById("step-data").textContent);
    this.part = (name) => root.querySelector(`[data-step="${name}"]`);
    this.root = root;
    this.gpus = data.rows.filter(({ kind }) => kind === "gpu");
    this.part("gpu").append(...this.gpus.map(({ label }, at) => new Option(label, at)));
    this.part("gpu").parentElement.hidden = this.gpus.length < 2;
    this.pinned = null;
    this.choose(this.gpus.find(({ device }) => device === this.say.device) ?? this.gpus[0]);
    this.part("controls").hidden = false;
    this.listen();
    this.follow();
    this.show();
  }

  /** Take a GPU and the steps of its process; the step of the same number stays. */
  choose(gpu, number = -1) {
    this.gpu = gpu;
    Object.assign(this, stepsOf(this.data, gpu));
    this.byTime = [...this.order].sort((one, other) => one - other);
    const same = this.byTime[number];
    this.at = same === undefined ? this.typical : this.order.indexOf(same);
  }

  /** Return the place of the typical step in the order of length. */
  get typical() {
    return (this.order.length - 1) >> 1;
  }

  /** Return the step that is shown. */
  get shown() {
    return { data: this.data, say: this.say, gpu: this.gpu, row: this.row, item: this.order[this.at] };
  }

  /** Listen to the slider, the buttons, the address, and selections made elsewhere. */
  listen() {
    const slider = this.part("slider");
    slider.addEventListener("input", () => this.go(Number(slider.value) - 1));
    this.part("fastest").addEventListener("click", () => this.jump(0));
    this.part("typical").addEventListener("click", () => this.jump(this.typical));
    this.part("slowest").addEventListener("click", () => this.jump(this.order.length - 1));
    this.part("pin").addEventListener("click", () => this.pin());
    listenToOtherRuns(this);
    this.part("gpu").addEventListener("change", (event) => {
      this.choose(this.gpus[Number(event.target.value)], this.byTime.indexOf(this.order[this.at]));
      this.changed();
    });
    window.addEventListener("hashchange", () => this.follow() && this.show());
    // Selections of other parts, wherever on the page they are dispatched.
    window.addEventListener(SELECT, ({ detail }) => this.isSaying || this.take(detail), true);
  }

  /** Show a step by its place in the order of length. */
  go(at) {
    this.at = Math.min(Math.max(at, 0), this.order.length - 1);
    this.changed();
  }

  /** Show the step of a button. If one is pinned, scroll to both: the panel of the selection covers what is below. */
  jump(at) {
    this.go(at);
    if (this.pinned) this.part("shown").closest("section").scrollIntoView();
  }

  /** Keep the step that is shown below those that follow; without a step, remove the one that is kept. */
  pin(step = this.shown) {
    this.pinned = step;
    history.replaceState(null, "", this.address());
    this.show();
    const whose = step?.of ? ` of ${step.of}` : "";
    const said = step ? `${this.nameOf(step)}${whose} is pinned. Choose another step to compare it with.` : "Nothing is pinned.";
    this.part("said").textContent = step ? "" : said;
    globalThis.nsyswrap.announce(said);
  }

  /** Draw, and select the step, which also writes its address. */
  changed() {
    this.show();
    const { row, item } = this.shown;
    const detail = { kind: "step", id: this.nameOf(this.shown), start_ns: row.start[item], end_ns: row.end[item], address: this.address() };
    this.isSaying = true;
    document.dispatchEvent(new CustomEvent(SELECT, { bubbles: true, detail }));
    this.isSaying = false;
  }

  /** Follow a selection of another part of the page: a step by its interval, a rank by its number. */
  take(detail) {
    if (detail?.kind === "step" && this.goTo(detail.start_ns, detail.end_ns)) {
      this.show();
    } else if (detail?.kind === "rank") {
      const gpu = this.gpus.find(({ label }) => label.startsWith(`rank ${detail.id},`));
      if (gpu) {
        this.choose(gpu, this.byTime.indexOf(this.order[this.at]));
        this.show();
      }
    }
  }

  /** Go to the step with an interval, of any GPU; return whether there is one. */
  goTo(start, end) {
    const own = (gpu) => {
      const { row, order } = stepsOf(this.data, gpu);
      return order.findIndex((at) => row.start[at] === start && row.end[at] === end);
    };
    const gpu = [this.gpu, ...this.gpus].find((one) => own(one) >= 0);
    if (gpu) {
      const at = own(gpu);
      this.choose(gpu);
      this.at = at;
    }
    return Boolean(gpu);
  }

  /** Return the address of the step, its GPU and the pinned step: `#step=14&gpu=1&pin=3-0`. */
  address() {
    const text = ({ row, item }) => row.start.length && `${item + 1}`;
    const gpu = this.gpus.indexOf(this.gpu);
    const pinned = this.pinned && !this.pinned.of ? `&pin=${text(this.pinned)}-${this.gpus.indexOf(this.pinned.gpu)}` : "";
    return `#step=${text(this.shown)}${gpu ? `&gpu=${gpu}` : ""}${pinned}`;
  }

  /** Follow the address; return whether it names a step. */
  follow() {
    const span = /^#t=(-?\d+)-(-?\d+)$/.exec(location.hash);
    if (span) {
      const own = this.pinned?.row;
      const isPinned = own && own.start[this.pinned.item] === Number(span[1]) && own.end[this.pinned.item] === Number(span[2]);
      return !isPinned && this.goTo(Number(span[1]), Number(span[2]));
    }
    const found = /^#step=(\d+)(?:&gpu=(\d+))?(?:&pin=(\d+)-(\d+))?$/.exec(location.hash);
    const gpu = found && this.gpus[Number(found[2] ?? 0)];
    if (!gpu) {
      return false;
    }
    const place = (one, number) => stepsOf(this.data, one).order.indexOf(Number(number) - 1);
    const kept = this.gpus[found[4]];
    const isKept = kept && place(kept, found[3]) >= 0;
    const isOther = Boolean(this.pinned?.of) && !kept;
    this.pinned = isKept ? { ...this.shown, gpu: kept, row: stepsOf(this.data, kept).row, item: found[3] - 1 } : isOther ? this.pinned : null;
    this.choose(gpu);
    const at = place(gpu, found[1]);
    this.at = at < 0 ? this.typical : at;
    this.root.scrollIntoView({ block: "start" });
    return true;
  }

  /** Return the name of a step. */
  nameOf({ data, row, item }) {
    return itemName(data, row, item);
  }

  /** Return a step in words: its length, its place among the others, and its GPU. */
  noteOf({ data, gpu, row, item }) {
    const { order } = stepsOf(data, gpu);
    const [at, last] = [order.indexOf(item), order.length - 1];
    const [rank, rest] = row.label.split(", ");
    // Each rank may have another number of steps in the window.
    const where = rest && data.rows.filter(({ kind }) => kind === "steps").length > 1 ? `of ${rank}` : "in the window";
    const of = `of ${order.length} steps ${where}`;
    const place = last === 0 ? `the only step ${where}` : at === (last >> 1) ? `the middle ${of}` : at === 0 ? `the fastest ${of}`
      : at === last ? `the slowest ${of}` : `number ${at + 1} ${of} by length`;
    const own = where === `of ${rank}` && gpu.label.startsWith(`${rank}, `) ? gpu.label.slice(rank.length + 2) : gpu.label;
    return `${duration(row.end[item] - row.start[item])}, ${place}${data.rows.filter(({ kind }) => kind === "gpu").length > 1 ? `, ${own}` : ""}`;
  }

  /** Return how much longer or shorter the shown step is than the pinned one. */
  difference() {
    const length = ({ row, item }) => row.end[item] - row.start[item];
    const more = this.pinned ? length(this.shown) - length(this.pinned) : 0;
    return more ? `, ${duration(Math.abs(more))} ${more > 0 ? "longer" : "shorter"} than the pinned step` : "";
  }

  /** Draw the shown step and the pinned one on one scale, and set the controls. */
  show() {
    const steps = [this.shown, ...(this.pinned ? [this.pinned] : [])];
    const scale = Math.max(...steps.map(({ row, item }) => row.end[item] - row.start[item]));
    this.fill(this.part("shown"), this.shown, scale, this.difference());
    const below = this.part("pinned");
    below.hidden = !this.pinned;
    if (this.pinned) {
      this.fill(below, this.pinned, scale, "");
    }
    const slider = this.part("slider");
    slider.max = this.order.length;
    slider.value = this.at + 1;
    slider.setAttribute("aria-valuetext", `${this.nameOf(this.shown)}, ${this.noteOf(this.shown)}`);
    const ends = { fastest: 0, typical: this.typical, slowest: this.order.length - 1 };
    for (const [name, at] of Object.entries(ends)) {
      const time = duration(this.row.end[this.order[at]] - this.row.start[this.order[at]]);
      this.part(name).textContent = `${name} ${time}`;
      this.part(name).setAttribute("aria-pressed", String(at === this.at));
    }
    this.part("gpu").value = this.gpus.indexOf(this.gpu);
  }

  /** Put a step into a figure: its name, its drawing and its findings. */
  fill(figure, step, scale, more) {
    const span = { start: step.row.start[step.item], end: step.row.end[step.item] };
    const model = stepModel(step.data, step.say, step.gpu, span, scale);
    const caption = element("figcaption");
    const link = element("a", "", "show in the timeline");
    link.href = `#t=${span.start}-${span.end}`;
    // The timeline of this page does not hold the steps of another run.
    const leads = step.of ? [element("span", "st-of", step.of)] : [link];
    caption.append(element("b", "", this.nameOf(step)), element("span", "", this.noteOf(step) + more), ...leads);
    if (figure === this.part("pinned")) {
      caption.firstChild.before(element("span", "st-kept", "pinned"));
      const remove = element("button", "", "Remove");
      remove.addEventListener("click", () => {
        this.pin(null);
        this.part("pin").focus();
      });
      caption.append(remove);
    }
    const drawing = stepDrawing(model);
    figure.replaceChildren(caption, drawing, stepFound(model));
    new StepPointer(step.data, figure, drawing, model);
  }
}

/** Return the list of the findings that have time in a step. */
function stepFound(model) {
  const list = element("ol", "st-found");
  list.setAttribute("aria-label", "Findings with time in this step");
  for (const one of model.findings) {
    const [entry, link] = [element("li"), element("a", "", one.name)];
    const ns = total(one.sums);
    entry.value = one.number;
    link.href = `#${one.anchor}`;
    const hue = hueOf(one.place[0], one.place[1]);
    const colour = drawn("svg", { class: "swatch", width: 12, height: 12, "aria-hidden": "true" }, drawn("rect", { class: `h-${hue}`, width: 12, height: 12, rx: 2 }));
    entry.append(colour, link, " ", element("span", "", `${duration(ns)}, ${share(ns, model.span.end - model.span.start)}`));
    list.append(entry);
  }
  return list;
}

/** Start the picture of the typical step, where the page has one. */
function startStep(data) {
  const root = document.getElementById("step");
  return root ? new StepPicture(root, data) : null;
}
