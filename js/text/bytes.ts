const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** A size in about three digits: "512 bytes", "1.5 KiB", "24 MiB". */
export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  // A value that would be written as 1024 goes up to the next unit.
  while (unit + 1 < UNITS.length && value >= 1023.5) {
    value /= 1024;
    unit++;
  }
  const text = unit === 0 || value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  return `${text} ${unit === 0 && text === "1" ? "byte" : UNITS[unit]}`;
}
