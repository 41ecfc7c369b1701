// Formats of numbers, equal to base/figures.py (a test compares them).
const text_of = (() => {
  let units = { duration: [], size: [], rate: [] };

  // As Python rounds: an exact tie goes to the even digit.
  function fixed(value, digits) {
    const size = Math.abs(value);
    const behind = (size % 1) * 10 ** digits;
    const kept = Math.floor(behind);
    const tie = behind - kept === 0.5 && Number.isInteger(size * 2 ** (digits + 1));
    const even = (digits ? kept : Math.floor(size)) % 2 === 0;
    const text = tie && even
      ? String(Math.floor(size)) + (digits ? `.${String(kept).padStart(digits, "0")}` : "")
      : size.toFixed(digits);
    const [whole, part] = text.includes("e") ? [BigInt(size).toString(), "0".repeat(digits)] : text.split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? "." + part : "");
    return (value < 0 && /[1-9]/.test(grouped) ? "−" : "") + grouped;
  }

  function three(value) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const power = Math.floor(Math.log10(Math.abs(Number(value.toExponential(2)))) + 1e-12);
    return fixed(value, Math.max(0, 2 - power));
  }

  function scaled(value, steps, unit) {
    for (const [scale, name] of steps) {
      if (Math.abs(value) >= 0.9995 * scale) return `${three(value / scale)} ${name}${unit}`;
    }
    return null;
  }

  const forms = {
    count: (value) => (Number.isFinite(value) ? fixed(value, 0) : three(value)),
    percent: (value) => (Number.isFinite(value) ? `${fixed(100 * value, 1)} %` : "–"),
    ratio: (value) => (Number.isFinite(value) ? `${fixed(value, 2)} ×` : "–"),
    size: (value) => scaled(value, units.size, "") ?? `${forms.count(value)} B`,
    duration: (value) => {
      if (value === 0) return "0 s";
      const [scale, name] = units.duration[units.duration.length - 1];
      return scaled(value, units.duration, "") ?? `${three(value / scale)} ${name}`;
    },
  };

  function said(form, value) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    if (form.startsWith("+")) {
      return value === 0 ? "0" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${said(form.slice(1), Math.abs(value))}`;
    }
    if (form.startsWith("rate:")) {
      const unit = form.slice(5);
      return (scaled(value, units.rate, unit) ?? `${three(value)} ${unit}`).trimEnd();
    }
    return form in forms ? forms[form](value) : String(value);
  }
  return { said, use: (found) => { units = found; } };
})();
