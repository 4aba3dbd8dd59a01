// The consoles of the other members, for when the one that serves this page does not answer.

import { h } from './dom.js';

const loopbackHost = /^(localhost|127(\.\d+){3}|\[::1\])$/;

// consoleLinks returns links to the consoles of the other members at the same view, or null if there are none. For a
// console on the loopback interface of another machine it shows a command that reaches it.
export function consoleLinks(all, self) {
  const ways = all.filter((m) => m.member !== self && !m.silent).map(consoleLink).filter(Boolean);
  return ways.length === 0 ? null : h('ul', { class: 'peers', 'aria-label': 'Other consoles' }, ways.map((w) => h('li', {}, w)));
}

// consoleLink returns a link to a member's console, or a command that reaches it, or null if it has none.
export function consoleLink(m) {
  const url = URL.canParse(m.console) ? new URL(m.console) : null;
  if (!url || !/^https?:$/.test(url.protocol)) {
    return null;
  }
  const machine = m.quorum.replace(/:\d+$/, '');
  if (loopbackHost.test(url.hostname) && !(loopbackHost.test(location.hostname) && (machine === '' || loopbackHost.test(machine)))) {
    return h('span', {}, `Member ${m.member} only on its machine: `, h('code', {}, `ssh -L ${url.port}:${url.host} ${machine}`));
  }
  return h('a', { href: url.origin + '/' + location.hash, rel: 'noreferrer' }, `Member ${m.member}`);
}
