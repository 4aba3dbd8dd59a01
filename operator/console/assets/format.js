// Numbers, sizes and times as people read them.

const numberFormat = new Intl.NumberFormat('en');
const timeFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dateFormat = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' });

// visibleText returns a client's text, such as a path, with invisible characters written out. Some of them
// reverse the text, so that it looks like another.
export const visibleText = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu, (c) => {
  const code = c.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
});

// visibleLines does the same for a text that may have tabs and several lines.
export const visibleLines = (text) => text.split(/(\r?\n|\t)/).map((part, i) => (i % 2 === 0 ? visibleText(part) : part)).join('');

export const unknownValue = '–';

// formatCount returns a whole number with separators.
export const formatCount = (n) => (n == null ? unknownValue : numberFormat.format(n));

// recoveryTerms is the number that `rollcall recover` adds to the term. No ensemble holds as many elections.
const recoveryTerms = 65_536;

// formatTerm returns the terms that elections began, and apart from them the recoveries, such as 6+recovery.
export function formatTerm(term) {
  const recoveries = Math.floor(term / recoveryTerms);
  const elected = formatCount(term == null ? term : term % recoveryTerms);
  return recoveries > 1 ? `${elected}+${formatCount(recoveries)} recoveries` : recoveries === 1 ? `${elected}+recovery` : elected;
}

export const countNoun = (n, one, many = `${one}s`) => `${formatCount(n)} ${n === 1 ? one : many}`;

// shortNumber returns a number in at most four characters, such as 9.8k or 120k.
export function shortNumber(n) {
  if (n == null) {
    return unknownValue;
  }
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (n >= size * 0.9995) {
      return `${shortDigits(n / size)}${unit}`;
    }
  }
  return shortDigits(n);
}

const shortDigits = (n) => String(n < 9.95 ? Number(n.toFixed(1)) : Math.round(n));

// threeDigits returns a number with three figures at most.
export const threeDigits = (n) => String(Number(n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)));

export function formatBytes(n) {
  if (n == null) {
    return unknownValue;
  }
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 ? n : threeDigits(n)} ${units[i]}`;
}

// formatDuration formats milliseconds.
export function formatDuration(ms) {
  if (ms == null) {
    return unknownValue;
  }
  const sign = ms < 0 ? '−' : '';
  const long = Math.abs(ms);
  for (const [unit, size, part, small] of [['d', 864e5, 'h', 36e5], ['h', 36e5, 'min', 6e4], ['min', 6e4, 's', 1e3]]) {
    if (long >= 2 * size) {
      const rest = Math.floor((long % size) / small);
      return `${sign}${Math.floor(long / size)} ${unit}${rest > 0 && long < 10 * size ? ` ${rest} ${part}` : ''}`;
    }
  }
  return long < 999.5 ? `${sign}${Math.round(long)} ms` : `${sign}${Number((long / 1000).toFixed(1))} s`;
}

// formatMicros formats microseconds.
export const formatMicros = (us) => (us < 1000 ? `${Math.round(us)} µs` : us < 999_500 ? `${threeDigits(us / 1000)} ms` : `${threeDigits(us / 1e6)} s`);

// timeSince returns the age of an RFC 3339 time.
export function timeSince(at) {
  const ms = Date.now() - Date.parse(at);
  return ms < 1500 ? 'now' : `${formatDuration(ms)} ago`;
}

// withFullStop completes a text: members' errors have no full stop.
export const withFullStop = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

// asOf returns the time of old data, given in milliseconds since 1970.
export const asOf = (ms) => `as of ${timeFormat.format(ms)}`;

// formatDateTime returns the date and the time of an RFC 3339 time, or of milliseconds since 1970.
export const formatDateTime = (at) => dateFormat.format(new Date(at));

// formatTime returns the time of an RFC 3339 time, and the date unless it is today.
export function formatTime(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) {
    return unknownValue;
  }
  return (date.toDateString() === new Date().toDateString() ? timeFormat : dateFormat).format(date);
}
