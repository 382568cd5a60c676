export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e9) return `${trim(value / 1e9)} G`;
  if (Math.abs(value) >= 1e6) return `${trim(value / 1e6)} M`;
  if (Math.abs(value) >= 1e4) return `${trim(value / 1e3)} k`;
  return whole(value);
}

export function whole(value) {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) < 10 && value % 1 !== 0 ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${trim(value)} s`;
  if (value < 7200) return `${trim(value / 60)} min`;
  if (value < 172800) return `${trim(value / 3600)} h`;
  return `${trim(value / 86400)} d`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1 << 30, "GB"], [1 << 20, "MB"], [1 << 10, "KB"]]) {
    if (value >= size) return `${trim(value / size)} ${unit}`;
  }
  return value === 0 ? "0" : `${value} B`;
}

export function clock(epoch_s) {
  return new Date(epoch_s * 1000).toLocaleTimeString("en-GB");
}

export function moment(epoch_s) {
  if (!epoch_s) return "–";
  const at = new Date(epoch_s * 1000);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-CA")} `;
  return day + at.toLocaleTimeString("en-GB");
}

function trim(value) {
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, "");
}
