// A table of many rows: only the visible ones are in the document.
const ROW = 28;

function element(name, attributes = {}, ...inner) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inner);
  return made;
}

// The values of a table, by column and row.
class Values {
  constructor(data) {
    this.data = data;
    this.columns = new Map(data.columns.map((column) => [column.key, column]));
  }

  own(key, row) {
    const values = this.data.values[key];
    if (Array.isArray(values)) return values[row];
    return "all" in values ? values.all : values.of[values.at[row]];
  }

  sum(key, rows) {
    let total = 0;
    for (const row of rows) total += this.own(key, row) ?? 0;
    return total;
  }

  // The value of one row, or of several folded rows.
  of(key, rows) {
    const column = this.columns.get(key);
    if (column.of) {
      const [above, below, scale] = column.of;
      const under = below ? this.sum(below, rows) : 1;
      return under ? (scale * this.sum(above, rows)) / under : null;
    }
    if (rows.length === 1) return this.own(key, rows[0]);
    if (column.form === "text") {
      const first = this.own(key, rows[0]);
      return rows.every((row) => this.own(key, row) === first) ? first : "several";
    }
    return column.added ? this.sum(key, rows) : null;
  }
}

class Table {
  constructor(data, place) {
    this.data = data;
    this.values = new Values(data);
    this.place = place;
    this.shown = data.columns.filter((column) => column.shown);
    this.first = this.shown[0].key;
    this.sorting = { key: null, down: true };
    this.filter = { text: "", choice: "" };
    this.folded = Boolean(data.fold);
    this.open = new Set();
    this.chosen = [];
    this.cursor = -1;
    this.listeners = [];
    this.reasons = null; // the page's `Reasons`, if any
    this.order = Int32Array.from({ length: data.length }, (_, i) => i);
    this.lower = Array.from(this.order, (row) => String(this.values.own(this.first, row)).toLowerCase());
    this.build();
    this.update();
  }

  build() {
    const { data } = this;
    this.said = element("span", { class: "note", role: "status" });
    const search = element("input", {
      type: "search", placeholder: "filter by name", "aria-label": `filter ${data.what} by name`,
      oninput: (event) => { this.filter.text = event.target.value.trim().toLowerCase(); this.update(); },
    });
    const tools = element("div", { class: "tools" }, search);
    if (data.choice) {
      const found = new Set();
      for (let row = 0; row < data.length; row++) found.add(this.values.own(data.choice, row));
      const select = element("select", {
        "aria-label": `filter by ${this.values.columns.get(data.choice).title}`,
        onchange: (event) => { this.filter.choice = event.target.value; this.update(); },
      }, element("option", { value: "" }, `${this.values.columns.get(data.choice).title}: any`));
      for (const one of [...found].sort()) select.append(element("option", { value: one }, one));
      tools.append(select);
    }
    if (data.fold) {
      tools.append(element("button", {
        type: "button", "aria-pressed": "true",
        onclick: (event) => {
          this.folded = !this.folded;
          event.currentTarget.setAttribute("aria-pressed", String(this.folded));
          this.update();
        },
      }, "fold layers"));
    }
    tools.append(this.said);
    this.head = element("tr");
    for (const column of this.shown) {
      this.head.append(element("th", { scope: "col", class: column.form === "text" ? "left" : null, "aria-sort": "none" },
        element("button", { type: "button", onclick: () => this.sort(column.key) }, column.title)));
    }
    this.body = element("tbody");
    const widths = this.shown.map((column, i) => (i === 0 ? 270 : column.form === "text" ? (this.shown.length < 3 ? 420 : this.shown.length < 5 ? 210 : 108) : column.form.startsWith("rate:") ? 128 : 106));
    const columns = element("colgroup", {}, ...widths.map((width, i) => element("col", { style: i === 0 ? "" : `width:${width}px` })));
    const table = element("table", { style: `min-width:${widths.reduce((a, b) => a + b)}px` }, columns, element("thead", {}, this.head), this.body);
    this.window = element("div", {
      class: "window", tabindex: "0", onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
      "aria-label": `${data.what}: arrow keys select a row`,
    }, table);
    this.details = element("div", { class: "details", hidden: true, "aria-live": "polite" });
    this.place.replaceChildren(tools, this.window, this.details);
    this.place.classList.add("live");
  }

  sort(key) {
    const text = this.values.columns.get(key).form === "text";
    this.sorting = { key, down: this.sorting.key === key ? !this.sorting.down : !text };
    const way = this.sorting.down ? -1 : 1;
    const keys = Array.from({ length: this.data.length }, (_, row) => this.values.of(key, [row]));
    this.order = Int32Array.from({ length: this.data.length }, (_, i) => i).sort((a, b) => way * compare(keys[a], keys[b], way) || a - b);
    [...this.head.children].forEach((cell, i) => {
      const sorted = this.shown[i].key === key;
      cell.setAttribute("aria-sort", !sorted ? "none" : this.sorting.down ? "descending" : "ascending");
    });
    this.update();
  }

  // Filters the rows, then groups them into lines.
  update() {
    const { text, choice } = this.filter;
    const kept = [];
    for (const row of this.order) {
      if (text && !this.lower[row].includes(text)) continue;
      if (choice && this.values.own(this.data.choice, row) !== choice) continue;
      kept.push(row);
    }
    this.kept = kept;
    this.lines = this.folded ? this.groups(kept) : kept.map((row) => ({ rows: [row] }));
    const all = this.data.length;
    this.said.textContent = `${text_of.said("count", kept.length)}${kept.length < all ? ` of ${text_of.said("count", all)}` : ""} ${this.data.what}`
      + (this.folded ? ` in ${text_of.said("count", this.groupCount)} line${this.groupCount === 1 ? "" : "s"}` : "");
    this.window.scrollTop = 0;
    this.cursor = -1;
    this.draw(true);
    for (const listener of this.listeners) listener(this);
  }

  groups(kept) {
    const found = new Map();
    const { at, of } = this.data.fold;
    for (const row of kept) {
      const group = at[row];
      if (found.has(group)) found.get(group).push(row);
      else found.set(group, [row]);
    }
    let groups = [...found].map(([group, rows]) => ({ group, rows, name: of[group] }));
    this.groupCount = groups.length;
    if (this.sorting.key) {
      const { key, down } = this.sorting;
      const way = down ? -1 : 1;
      const keys = new Map(groups.map((one) => [one.group, key === this.first ? one.name : this.values.of(key, one.rows)]));
      groups.sort((a, b) => way * compare(keys.get(a.group), keys.get(b.group), way));
    } else if (this.data.order) {
      const keys = new Map(groups.map((one) => [one.group, this.values.of(this.data.order, one.rows)]));
      groups.sort((a, b) => keys.get(b.group) - keys.get(a.group));
    }
    const lines = [];
    for (const one of groups) {
      const several = one.rows.length > 1;
      lines.push(several ? one : { rows: one.rows });
      if (several && this.open.has(one.group)) for (const row of one.rows) lines.push({ rows: [row], member: true });
    }
    return lines;
  }

  draw(anew = false) {
    const sight = Math.ceil(this.window.clientHeight / ROW) + 12;
    const first = Math.max(0, Math.min(Math.floor(this.window.scrollTop / ROW) - 6, this.lines.length - sight));
    if (!anew && first === this.drawn) return;
    this.drawn = first;
    const last = Math.min(this.lines.length, first + Math.max(sight, 30));
    const made = document.createDocumentFragment();
    if (first) made.append(this.space(first));
    for (let i = first; i < last; i++) made.append(this.line(this.lines[i]));
    if (last < this.lines.length) made.append(this.space(this.lines.length - last));
    if (!this.lines.length) {
      made.append(element("tr", {}, element("td", { colspan: this.shown.length, class: "left" }, "no row matches the filter")));
    }
    this.body.replaceChildren(made);
  }

  space(lines) {
    return element("tr", { class: "space", "aria-hidden": "true", style: `height:${lines * ROW}px` },
      element("td", { colspan: this.shown.length }));
  }

  line(one) {
    const group = one.group !== undefined;
    const chosen = this.chosen.length === one.rows.length && this.chosen[0] === one.rows[0];
    const row = element("tr", {
      class: [one.member && "member", chosen && "chosen"].filter(Boolean).join(" ") || null,
      "aria-current": chosen && "true",
      onclick: () => {
        this.cursor = this.lines.indexOf(one);
        this.tell(one.rows, one.name);
        if (group) this.toggle(one.group);
      },
    });
    for (const column of this.shown) {
      const value = group && column.key === this.first ? one.name : this.values.of(column.key, one.rows);
      const text = text_of.said(column.form, value);
      const cell = element("td", { class: column.form === "text" ? "left" : null, title: column.form === "text" ? text : null });
      if (group && column.key === this.first) {
        const open = this.open.has(one.group);
        cell.append(element("button", {
          type: "button", "aria-expanded": String(open),
          onclick: (event) => { event.stopPropagation(); this.toggle(one.group); },
        }, open ? "▾" : "▸"), ` ${text} (${one.rows.length})`);
      } else {
        const colour = column.key === this.data.choice ? this.data.colours[value] : null;
        if (colour) cell.append(element("i", { class: "dot", style: `background:${colour}` }));
        cell.append(text);
      }
      row.append(cell);
    }
    return row;
  }

  toggle(group) {
    if (!this.open.delete(group)) this.open.add(group);
    const at = this.window.scrollTop;
    this.lines = this.groups(this.kept);
    this.draw(true);
    this.window.scrollTop = at;
    this.window.focus({ preventScroll: true });
  }

  // Arrows select a line and open or close it, Enter shows its details, Escape closes them.
  key(event) {
    if (event.target !== this.window) return;
    const one = this.lines[this.cursor];
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -this.lines.length, End: this.lines.length }[event.key];
    if (event.key === "Escape") this.close();
    else if (step && this.lines.length) {
      this.cursor = Math.min(this.lines.length - 1, Math.max(0, this.cursor + step));
      const [top, sight] = [this.cursor * ROW, this.window.clientHeight - this.head.offsetHeight - ROW];
      if (top < this.window.scrollTop || top > this.window.scrollTop + sight) this.window.scrollTop = step < 0 ? top : top - sight;
      const now = this.lines[this.cursor];
      this.tell(now.rows, now.name, null);
    } else if (one && one.group !== undefined && ["Enter", " ", "ArrowRight", "ArrowLeft"].includes(event.key)) {
      const open = this.open.has(one.group);
      if (event.key === "Enter" || event.key === " " || open === (event.key === "ArrowLeft")) this.toggle(one.group);
    } else if (one && (event.key === "Enter" || event.key === " ")) this.tell(one.rows, one.name);
    else return;
    event.preventDefault();
  }

  close() {
    this.chosen = [];
    this.details.hidden = true;
    this.draw(true);
  }

  // Shows the details of rows below the table, or below the clicked element (`near`; null: without scrolling).
  tell(rows, name = undefined, near = this.place) {
    this.chosen = rows;
    const values = [];
    for (const column of this.data.columns) {
      const value = name !== undefined && column.key === this.first ? name : this.values.of(column.key, rows);
      if (value === null || value === undefined) continue;
      const text = text_of.said(column.form, value);
      values.push(element("div", { class: column.form === "text" && String(text).length > 24 ? "whole" : null }, element("b", {}, column.title), text));
    }
    const shut = element("button", { type: "button", class: "shut", "aria-label": "close", onclick: () => this.close() }, "×");
    this.details.replaceChildren(shut, ...(this.reasons ? this.reasons.of(rows, name) : []), ...values);
    this.details.hidden = false;
    if (near === this.place || near === null) this.place.append(this.details);
    else near.after(this.details);
    this.draw(true);
    if (near) this.details.scrollIntoView({ block: "nearest" });
  }
}

// Compares numbers or texts; missing values come last in both orders.
function compare(a, b, way = 1) {
  if (a === b) return 0;
  if (a === null || a === undefined) return way;
  if (b === null || b === undefined) return -way;
  return a < b ? -1 : 1;
}
