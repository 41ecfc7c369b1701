// Why rows of a table take their time: bound, terms above it, roofline position, tiles.
const PARTS_OF = { array: "arrays", vector: "vector units", memory: "memory" };

class Reasons {
  constructor(data, table) {
    this.data = data;
    this.table = table;
  }

  value(key, row) {
    const values = this.data[key];
    if (Array.isArray(values)) return values[row];
    return "all" in values ? values.all : values.of[values.at[row]];
  }

  sum(key, rows) {
    return rows.reduce((total, row) => total + (this.value(key, row) ?? 0), 0);
  }

  same(key, rows) {
    const first = this.value(key, rows[0]);
    return rows.every((row) => this.value(key, row) === first) ? first : null;
  }

  // Cycles and share of each term, summed over rows.
  terms(rows) {
    const { packs, at, parts, columns } = this.data;
    const found = new Map();
    const whole = this.table.values.sum(columns[0], rows);
    for (const row of rows) {
      const pack = packs[at[row]];
      const own = whole ? this.table.values.own(columns[0], row) : 1 / rows.length;
      for (let i = 0; i < pack.length; i += 2) found.set(pack[i], (found.get(pack[i]) ?? 0) + (own * pack[i + 1]) / parts);
    }
    const bound = (term) => (this.data.terms[term][0] === "lower bound" ? 0 : 1);
    return [...found].sort((a, b) => bound(a[0]) - bound(b[0]) || b[1] - a[1])
      .map(([term, cycles]) => ({ term, cycles: whole ? cycles : 0, share: whole ? cycles / whole : cycles }));
  }

  of(rows, name) {
    const { data } = this;
    const called = name ?? this.table.values.of(this.table.first, rows);
    const title = element("h3", {}, `Why: ${called}${rows.length > 1 ? ` (${rows.length})` : ""}`);
    if (rows.some((row) => data.at[row] < 0)) return [element("div", { class: "whole why" }, title, element("p", { class: "note" }, data.missing), ...this.remedy(rows))];
    const terms = this.terms(rows);
    const bar = element("div", { class: "bar" }, ...terms.map(({ term, share }) => element("i", {
      style: `width:${100 * share}%;background:${data.terms[term][2]}`, title: `${data.terms[term][0]}: ${text_of.said("percent", share)}`,
    })));
    const head = element("tr", {}, ...["term", "cycles", "share", "meaning"].map((text, i) => element("th", { class: i % 3 ? null : "left" }, text)));
    const lines = terms.map(({ term, cycles, share }) => element("tr", {},
      element("td", { class: "left" }, element("i", { class: "dot", style: `background:${data.terms[term][2]}` }), data.terms[term][0]),
      element("td", {}, text_of.said("count", cycles)), element("td", {}, text_of.said("percent", share)),
      element("td", { class: "left" }, data.terms[term][1])));
    const table = element("div", { class: "window" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)));
    const how = [...new Set(rows.map((row) => this.value("how", row)))];
    const more = [this.least(rows), ...(rows.length > 1 ? [`Sums over ${rows.length} kernels.`] : [])];
    const tiles = this.same("tiles", rows);
    return [element("div", { class: "whole why" }, title,
      ...more.filter(Boolean).map((text) => element("p", {}, text)), bar, table,
      ...[this.place(rows), tiles && `Tiles: ${tiles}`].filter(Boolean).map((text) => element("p", {}, text)),
      ...how.map((text) => element("p", { class: "note" }, text)), ...this.remedy(rows))];
  }

  least(rows) {
    const bound = this.sum("least", rows);
    const cycles = this.table.values.sum(this.data.columns[0], rows);
    if (!bound) return "No lower bound: the operation computes and moves nothing.";
    const part = PARTS_OF[this.same("part", rows)];
    const text = `At least ${text_of.said("count", bound)} cycles, ${text_of.said("duration", bound / this.data.rates[0])}${part ? ` of the ${part}` : ""}`;
    if (bound > cycles) return `${text}; its own time is less, since it overlapped with others.`;
    return `${text}; it takes ${text_of.said("ratio", cycles / bound)} this bound.`;
  }

  place(rows) {
    const { values } = this.table;
    const [cycles, elapsed, products, all] = this.data.columns;
    const multiplied = values.sum(products, rows);
    const flops = multiplied ? 2 * multiplied : values.sum(all, rows);
    const [hertz, bandwidth] = this.data.rates;
    const moved = this.sum("moved", rows);
    const seconds = rows.reduce((total, row) => total + Math.max(values.own(cycles, row), values.own(elapsed, row)), 0) / hertz;
    const peak = this.same("peak", rows);
    if (!seconds) return "";
    let text = `Roofline (${multiplied ? "multiply-adds" : "vector operations"}): ${text_of.said("size", moved)} moved`;
    if (moved) text += `, ${text_of.said("rate:", flops / moved)} FLOP/byte`;
    text += `; ${text_of.said("rate:FLOP/s", flops / seconds)} and ${text_of.said("rate:B/s", moved / seconds)} attained`;
    if (!peak) return `${text}.`;
    const ceiling = moved && bandwidth ? Math.min(peak, (flops / moved) * bandwidth) : peak;
    if (ceiling) text += `, ${text_of.said("percent", flops / seconds / ceiling)} of the ${text_of.said("rate:FLOP/s", ceiling)} possible at this intensity`;
    return `${text} (peaks: ${text_of.said("rate:FLOP/s", peak)}, ${text_of.said("rate:B/s", bandwidth)}).`;
  }

  remedy(rows) {
    const name = String(this.table.values.own(this.table.first, rows[0]));
    const quoted = /^[\w.,:\/@%+=-]+$/.test(name) ? name : `'${name.replaceAll("'", `'"'"'`)}'`;
    const fill = (text) => text.replace(/\{(name|quoted)\}/g, (_, what) => (what === "name" ? JSON.stringify(name) : quoted));
    return this.data.remedy.map(([before, code, after]) => element("p", { class: "note" }, before, element("code", {}, fill(code)), after));
  }
}
