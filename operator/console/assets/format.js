// Numbers, sizes and times as people read them.

const numbers = new Intl.NumberFormat('en');
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' });

// shown returns a text that a client has chosen, such as a path, with the characters written out that nobody sees. Some
// of them turn the text around, so that it looks like another.
export const shown = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu, (c) => {
  const code = c.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
});

// shownLines does the same with a text that may have tabs and several lines.
export const shownLines = (text) => text.split(/(\r?\n|\t)/).map((part, i) => (i % 2 === 0 ? shown(part) : part)).join('');

// What is not known.
export const none = '–';

// count returns a whole number with separators.
export const count = (n) => (n == null ? none : numbers.format(n));

// plural returns a count with its noun.
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// short returns a number in at most four characters, such as 9.8k or 120k.
export function short(n) {
  if (n == null) {
    return none;
  }
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (n >= size * 0.9995) {
      return `${brief(n / size)}${unit}`;
    }
  }
  return brief(n);
}

const brief = (n) => String(n < 9.95 ? Number(n.toFixed(1)) : Math.round(n));

// digits returns a number with three figures at most.
export const digits = (n) => String(Number(n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)));

// bytes returns a size.
export function bytes(n) {
  if (n == null) {
    return none;
  }
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 ? n : digits(n)} ${units[i]}`;
}

// span returns a length of time, given in milliseconds.
export function span(ms) {
  if (ms == null) {
    return none;
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

// micros returns a short length of time, given in microseconds.
export const micros = (us) => (us < 1000 ? `${Math.round(us)} µs` : `${digits(us / 1000)} ms`);

// ago returns how long ago a point in time was, given as RFC 3339.
export function ago(at) {
  const ms = Date.now() - Date.parse(at);
  return ms < 1500 ? 'now' : `${span(ms)} ago`;
}

// sentence returns a text with a full stop: members' errors have none.
export const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

// asOf says since when something is old, given in milliseconds since 1970.
export const asOf = (ms) => `as of ${clock.format(ms)}`;

// moment returns a point in time: of today the clock, and of other days the date, too.
export function moment(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) {
    return none;
  }
  return (date.toDateString() === new Date().toDateString() ? clock : day).format(date);
}
