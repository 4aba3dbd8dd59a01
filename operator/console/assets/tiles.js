// The numbers at the top of the overview, with their courses.

import { pageAddress } from './address.js';
import { $, h } from './dom.js';
import { memberRows } from './ensemble.js';
import { countNoun, formatCount, formatMicros, shortNumber } from './format.js';
import { Spark } from './spark.js';

// start makes the tiles, and returns what main.js needs of a view.
export function start() {
  const sessions = new Spark('Sessions', formatCount);
  const requests = new Spark('Requests per second', shortNumber, 'this member');
  const latency = new Spark('Latency', formatMicros, 'this member');
  latency.element.append(h('a', { href: pageAddress('slow') }, 'Slow requests'));
  const connections = new Spark('Connections', formatCount);
  $('#tiles').append(...[sessions, connections, requests, latency].map((s) => s.element));
  return {
    hear: {
      status: (answer) => {
        const all = memberRows(answer);
        const known = all.filter((m) => !m.silent);
        const sum = (name) => (known.length === 0 ? null : known.reduce((n, m) => n + m[name], 0));
        const partial = known.length < all.length ? `of ${countNoun(known.length, 'member')} that answer` : undefined;
        sessions.push(sum('sessions'), partial);
        connections.push(sum('connections'), partial);
      },
      load: (l) => {
        requests.push(l.over_ms === 0 ? null : l.requests_per_s);
        latency.push(l.requests_per_s === 0 ? null : l.avg_us);
      },
    },
  };
}
