/** Numbers and times as people read them. A missing value is an en dash. */
export const NONE = "–";

const MINUS = "−";

/** A fixed number of digits after the point, with a real minus sign. */
export function fixed(value: number | null | undefined, digits: number): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** A reward: three digits, as differences of a few hundredths matter. */
export function reward(value: number | null | undefined): string {
  return fixed(value, 3);
}

/** A signed difference; plain zero without a sign. */
export function delta(value: number | null | undefined, digits = 3): string {
  const text = fixed(value, digits);
  return value !== null && value !== undefined && value > 0 && Number(text) !== 0 ? `+${text}` : text;
}

/** A share in [0, 1] as percent. What is not all is not called 100 %, nor what is something nothing. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const scaled = value * 100;
  if (scaled > 0 && scaled < 0.05) return "< 0.1 %";
  if (scaled >= 99.95 && scaled < 100) return "> 99.9 %";
  const size = Math.abs(scaled);
  return `${fixed(scaled, (size > 0 && size < 10) || (size > 99 && size < 100) ? 1 : 0)} %`;
}

/** A whole number with thin spaces between thousands. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return fixed(value, 0).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** About three significant digits, for axes and legends of any unit. */
export function compact(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** Bytes: `512 B`, `3.4 kB`, `12.0 MB`. */
export function fileSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${fixed(bytes / 1000 ** power, 1)} ${["B", "kB", "MB", "GB"][power]}`;
}

/** Seconds: `0.04 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`, `3 d 4 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 10) return `${fixed(seconds, 2)} s`;
  if (seconds < 59.95) return `${fixed(seconds, 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** How long one call took: `3 ms`, from a second on `1.25 s`. */
export function milliseconds(seconds: number): string {
  return seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : duration(seconds);
}

/** A time that one watches passing, without parts of seconds. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  return whole < 60 ? `${whole} s` : duration(whole);
}

/** When something was or will be: `14:05`, with the day when that is another one. Both in unix seconds. */
export function moment(unixSeconds: number, now: number): string {
  const [day, time] = dateTime(unixSeconds).slice(0, -3).split(" ");
  return dateTime(now).startsWith(`${day}`) ? `${time}` : `${day} ${time}`;
}

/** How long ago, coarsely. Both in unix seconds. */
export function ago(then: number, now: number): string {
  const seconds = Math.max(0, now - then);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

/** Local date and time to the second, in an order that sorts. */
export function dateTime(unixSeconds: number): string {
  return `${dayOf(unixSeconds)} ${clockTime(unixSeconds)}`;
}

function dayOf(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1000);
  return [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
}

/** Local time of day to the second. */
export function clockTime(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

/** The day of each time where it is another one than that of the time before it, which is `now` before the first; else
 * null. Unix seconds. */
export function daysOf(times: readonly number[], now: number): (string | null)[] {
  let before = dayOf(now);
  return times.map((time) => {
    const day = dayOf(time);
    const isOther = day !== before;
    before = day;
    return isOther ? day : null;
  });
}

/** `1 row`, `2 rows`. */
export function plural(amount: number, noun: string): string {
  return `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}

/** `server_error` as `server error`. */
export function humanize(identifier: string): string {
  return identifier.replaceAll("_", " ");
}

/** A sentence's first letter. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A long name without its middle: both ends tell names apart. */
export function middle(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const tail = Math.ceil((maxChars - 1) * 0.6);
  return `${text.slice(0, maxChars - 1 - tail)}…${text.slice(-tail)}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
