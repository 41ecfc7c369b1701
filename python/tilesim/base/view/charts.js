// Charts that zoom, drawn with Bokeh from the data of the static pictures.
const drawn = new Map();
const linked = new Map();

const ink = () => getComputedStyle(document.body).color;
const faint = () => ink().replace("rgb(", "rgba(").replace(")", ", 0.14)");

function ticks(form) {
  return new Bokeh.CustomJSTickFormatter({ code: `return window.tilesim.said(${JSON.stringify(form)}, tick)` });
}

// A range; those of one name move together (charts are separate documents and share no models).
function range(start, end, name = "") {
  const others = linked.get(name) ?? [];
  const made = new Bokeh.Range1d(others.length ? { start: others[0].start, end: others[0].end } : { start, end });
  if (!name) return made;
  linked.set(name, [...others, made]);
  for (const [one, other] of others.flatMap((other) => [[made, other], [other, made]])) {
    one.connect(one.change, () => {
      if (one.start !== other.start || one.end !== other.end) other.setv({ start: one.start, end: one.end });
    });
  }
  return made;
}

function figure(part, both, options) {
  const plot = Bokeh.Plotting.figure({
    height: Math.round(part.height), sizing_mode: "stretch_width", tools: [], toolbar_location: null, output_backend: "canvas",
    background_fill_alpha: 0, border_fill_alpha: 0, outline_line_alpha: 0, min_border_right: 14, ...options,
  });
  const dimensions = both ? "both" : "width";
  const box = new Bokeh.BoxZoomTool({ dimensions });
  plot.add_tools(box);
  if (!matchMedia("(pointer: coarse)").matches) plot.toolbar.active_drag = box; // a finger scrolls the page
  [plot.xaxis.axis_label, plot.yaxis.axis_label] = part.titles;
  return plot;
}

function style(plot) {
  const colour = ink();
  for (const axis of [plot.xaxis, plot.yaxis]) {
    axis.axis_label_text_color = colour;
    axis.major_label_text_color = colour;
    axis.axis_line_color = colour;
    axis.major_tick_line_color = colour;
    axis.minor_tick_line_color = null;
    axis.axis_label_text_font_style = "normal";
  }
  plot.xgrid.grid_line_color = faint();
  plot.ygrid.grid_line_color = faint();
}

function tips(plot, renderer, lines, policy = "snap_to_data") {
  plot.add_tools(new Bokeh.HoverTool({ renderers: [renderer], tooltips: lines, point_policy: policy }));
}

// A click on a shape shows the details of its table rows below the chart.
function pick(part, plot, renderer, source, table, rowsAt) {
  if (!table) return;
  renderer.nonselection_glyph = null;
  plot.add_tools(new Bokeh.TapTool({ renderers: [renderer] }));
  source.selected.properties.indices.change.connect(() => {
    const rows = source.selected.indices.length ? rowsAt(source.selected.indices[0]) : [];
    if (rows.length) table.tell(rows, undefined, document.getElementById(`chart-${part.name}`));
  });
}

function points(part, tables) {
  const [[left, right], [low, high]] = part.ranges;
  const plot = figure(part, true, {
    x_axis_type: "log", y_axis_type: "log", x_range: range(left, right), y_range: range(low, high),
  });
  plot.xaxis.formatter = ticks(part.forms[0]);
  plot.yaxis.formatter = ticks(part.forms[1]);
  const lines = [];
  for (const [name, xs, ys] of part.lines) {
    lines.push(plot.line(xs, ys, { line_width: 1.5 }));
    lines.push(plot.text({ x: { value: xs.at(-1) }, y: { value: ys.at(-1) }, text: { value: name }, text_align: "right", text_font_size: "12px", y_offset: -3 }));
  }
  const [x, y, name, sort] = part.keys;
  const table = tables.get(part.table);
  const source = new Bokeh.ColumnDataSource({ data: {} });
  // All points; a filter selects some of them.
  const every = table
    ? Array.from({ length: table.data.length }, (_, row) => [x, y, name, sort].map((key) => table.values.of(key, [row])))
    : part.points;
  const told = every.map(([a, b]) => [text_of.said(part.forms[0], a), text_of.said(part.forms[1], b)]);
  let own = [];
  const load = (rows) => {
    own = rows.filter((row) => every[row][0] > 0 && every[row][1] > 0);
    const take = (from) => own.map(from);
    source.data = {
      x: take((row) => every[row][0]), y: take((row) => every[row][1]),
      name: take((row) => every[row][2]), sort: take((row) => every[row][3]),
      colour: take((row) => part.colours[every[row][3]] ?? part.other),
      across: take((row) => told[row][0]), up: take((row) => told[row][1]),
    };
  };
  load(table ? table.kept : every.map((_, row) => row));
  let waits = 0;
  if (table) {
    table.listeners.push((changed) => { // the table's filter applies to the chart when the typing pauses
      clearTimeout(waits);
      waits = setTimeout(() => load(changed.kept), 120);
    });
  }
  const renderer = plot.scatter({ field: "x" }, { field: "y" }, {
    source, size: 8, fill_color: { field: "colour" }, line_color: "#ffffff", line_width: 0.5, fill_alpha: 0.85,
  });
  pick(part, plot, renderer, source, table, (at) => [own[at]]);
  tips(plot, renderer, [["", "@name"], [part.titles[0], "@across"], [part.titles[1], "@up"], ["bound by", "@sort"]]);
  const restyle = () => {
    for (const line of lines) {
      if (line.glyph.line_color !== undefined) line.glyph.line_color = ink();
      if (line.glyph.text_color !== undefined) line.glyph.text_color = ink();
    }
  };
  return { plot, restyle, source };
}

function boxes(part, tables) {
  const [left, right, low, high, sorts, texts] = part.boxes;
  const rows = part.rows.length;
  const plot = figure(part, !rows, {
    x_range: range(0, part.spans[0] * part.scale || 1, part.linked),
    y_range: rows ? range(part.spans[1], 0) : range(0, part.spans[1] || 1),
  });
  plot.xaxis.formatter = ticks(part.forms[0]);
  if (rows) {
    const places = part.rows.map((_, i) => i + 0.5);
    plot.yaxis.ticker = new Bokeh.FixedTicker({ ticks: places });
    const names = Object.fromEntries(part.rows.map((name, i) => [i, name.length > 22 ? `${name.slice(0, 10)}…${name.slice(-11)}` : name]));
    plot.yaxis.formatter = new Bokeh.CustomJSTickFormatter({ code: `return ${JSON.stringify(names)}[Math.floor(tick)] ?? ""` });
  } else plot.yaxis.formatter = ticks(part.forms[1]);
  const gap = rows ? 0.12 : 0;
  const apart = !rows && left.length < 1000; // separate boxes that touch
  const source = new Bokeh.ColumnDataSource({ data: {
    left: left.map((value) => value * part.scale), right: right.map((value) => value * part.scale), top: low.map((value) => value + gap), bottom: high.map((value) => value - gap),
    colour: sorts.map((sort) => part.sorts[sort][1]), text: texts.map((text) => part.texts[text]),
    sort: sorts.map((sort) => part.sorts[sort][0].replace(/_/g, " ")),
    from: left.map((value) => text_of.said(part.forms[0], value * part.scale)),
    for: left.map((value, i) => text_of.said(part.forms[0], (right[i] - value) * part.scale)),
  } });
  const renderer = plot.quad({ field: "left" }, { field: "right" }, { field: "bottom" }, { field: "top" }, {
    source, fill_color: { field: "colour" }, line_color: apart ? "#ffffff" : { field: "colour" }, line_width: 0.5,
  });
  pick(part, plot, renderer, source, tables.get(part.table), (at) => part.picks[texts[at]] ?? []);
  tips(plot, renderer, [["", "@text"], ["", "@sort"], ["from", "@from"], ["for", "@for"]], "follow_mouse");
  return { plot, restyle: () => {}, source };
}

function steps(part) {
  const length = part.tops.length ? part.tops[0].length : 0;
  const most = Math.max(0, part.limit ? part.limit[1] : 0, ...part.tops.map((row) => row.reduce((a, b) => Math.max(a, b), 0)));
  const plot = figure(part, false, {
    x_range: range(0, length * part.step * part.scale || 1, part.linked), y_range: range(0, most * 1.05 || 1),
  });
  plot.xaxis.formatter = ticks(part.forms[0]);
  plot.yaxis.formatter = ticks(part.forms[1]);
  let source = null;
  for (let i = part.tops.length - 1; i >= 0; i--) {
    const wide = part.step * part.scale;
    const starts = part.tops[i].map((_, k) => k * wide);
    source = new Bokeh.ColumnDataSource({ data: {
      left: starts, right: starts.map((value) => value + wide), bottom: starts.map(() => 0), top: part.tops[i],
      at: starts.map((value) => text_of.said(part.forms[0], value)),
      own: part.tops[i].map((value, k) => text_of.said(part.forms[1], value - (i ? part.tops[i - 1][k] : 0))),
    } });
    const renderer = plot.quad({ field: "left" }, { field: "right" }, { field: "bottom" }, { field: "top" }, {
      source, fill_color: part.colours[i], line_color: part.colours[i], line_width: 0.5,
    });
    if (i === part.tops.length - 1) tips(plot, renderer, [[part.names[i].replace(/_/g, " "), "@own"], ["at", "@at"]], "follow_mouse");
  }
  let limit = null;
  if (part.limit) {
    limit = new Bokeh.Span({ location: part.limit[1], dimension: "width", line_width: 1.5 });
    plot.add_layout(limit);
  }
  return { plot, restyle: () => { if (limit) limit.line_color = ink(); }, source };
}

// Zooms a range about its middle, or moves it; a logarithmic one by its exponents.
function change(axis, whole, log, zoom, move) {
  const [to, from] = log ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
  const [a, b] = [to(axis.start), to(axis.end)];
  const half = ((b - a) / 2) * zoom;
  let middle = (a + b) / 2 + (b - a) * move;
  const [low, high] = [to(whole[0]), to(whole[1])].sort((p, q) => p - q);
  if (Math.abs(half) * 2 >= high - low) return axis.setv({ start: whole[0], end: whole[1] });
  middle = Math.min(high - Math.abs(half), Math.max(low + Math.abs(half), middle));
  axis.setv({ start: from(middle - half), end: from(middle + half) });
}

function zoomTools(part, plot, both) {
  const log = part.kind === "points";
  const ranges = (both ? [plot.x_range, plot.y_range] : [plot.x_range]).map((axis) => [axis, [axis.start, axis.end]]);
  const button = (text, label, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const zoom = (factor) => () => { for (const [axis, whole] of ranges) change(axis, whole, log, factor, 0); };
  const move = (by) => () => change(...ranges[0], log, 1, by);
  return element("div", { class: "tools" },
    button("+", "zoom in", zoom(0.5)), button("−", "zoom out", zoom(2)),
    button("←", "earlier", move(-0.25)), button("→", "later", move(0.25)),
    button("all", "show all", () => { for (const [axis, whole] of ranges) axis.setv({ start: whole[0], end: whole[1] }); }),
    element("span", { class: "note" }, "drag to zoom"));
}

function restyle() {
  for (const chart of drawn.values()) {
    style(chart.plot);
    chart.restyle();
  }
}

const MAKERS = { points, boxes, steps };

async function drawAll(parts, tables) {
  try {
    for (const part of parts) {
      const place = document.getElementById(`chart-${part.name}`);
      const chart = MAKERS[part.kind](part, tables);
      const live = element("div", { class: part.table ? "live picks" : "live" });
      const room = place.querySelector(".drawn");
      const tools = zoomTools(part, chart.plot, part.kind === "points" || (part.kind === "boxes" && !part.rows.length));
      drawn.set(part.name, chart);
      style(chart.plot);
      chart.restyle();
      room.before(tools);
      room.append(live);
      place.classList.add("zooms");
      await Bokeh.Plotting.show(chart.plot, live);
    }
    document.documentElement.dataset.charts = "ready";
  } catch (error) {
    // Fall back to the static pictures.
    for (const place of document.querySelectorAll(".chart.zooms")) place.classList.remove("zooms");
    document.documentElement.dataset.charts = "failed";
    throw error;
  }
}
