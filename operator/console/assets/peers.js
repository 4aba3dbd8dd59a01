// The consoles of the other members, for when the one that serves this page does not answer.

import { h } from './dom.js';

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

// peers returns an element with a link to the console of each member that has one, besides self, at the same view. It returns null
// if there is none. A console on the loopback interface of another machine cannot be linked: how to reach it is said.
export function peers(all, self) {
  const ways = all.filter((m) => m.member !== self && !m.silent).map(way).filter(Boolean);
  return ways.length === 0 ? null : h('ul', { class: 'peers', 'aria-label': 'Other consoles' }, ways.map((w) => h('li', {}, w)));
}

// way returns a link to a member's console, or how to reach it, or null if it has none.
export function way(m) {
  const url = URL.canParse(m.console) ? new URL(m.console) : null;
  if (!url || !/^https?:$/.test(url.protocol)) {
    return null;
  }
  const machine = m.quorum.replace(/:\d+$/, '');
  if (loopback.test(url.hostname) && !(loopback.test(location.hostname) && (machine === '' || loopback.test(machine)))) {
    return h('span', {}, `Member ${m.member} only on its machine: `, h('code', {}, `ssh -L ${url.port}:${url.host} ${machine}`));
  }
  return h('a', { href: url.origin + '/' + location.hash, rel: 'noreferrer' }, `Member ${m.member}`);
}
