// The requests that took long, and where the time of one of them went.

import { pageAddress, replacePageAddress } from './address.js';
import { clientParameters, getJSON } from './requests.js';
import { openRefreshingDialog } from './current.js';
import { $, factList, h, setContent, updateFacts } from './dom.js';
import { formatMicros, formatTime, timeSince, unknownValue, visibleText } from './format.js';
import { Pages } from './pages.js';
import { Table } from './table.js';
import { registerWindow, visitWindow } from './windows.js';

// start builds the table, and returns the view for main.js.
export function start() {
  const table = new Table({
    label: 'Slow requests',
    key: (r) => r.id,
    open: (r) => visitWindow('slow', r.id),
    columns: [
      { title: 'Received', cell: (r) => formatTime(r.received) },
      { title: 'Member', kind: 'number', cell: (r) => r.member },
      { title: 'Session', kind: 'code', cell: (r) => r.session || unknownValue },
      { title: 'Address', kind: 'code', cell: (r) => r.address || unknownValue },
      { title: 'Operation', cell: (r) => r.op },
      { title: 'Path', kind: 'wide', cell: (r) => visibleText(r.path) || unknownValue },
      { title: 'Took', kind: 'number', cell: (r) => formatMicros(r.total_us) },
      { title: 'Longest stage', kind: 'wide', cell: longestStage },
    ],
  });
  const form = $('#slow-of');
  const text = () => form.elements.about.value.trim();
  const ask = (from, limit, signal) => getJSON('slow', { ...clientParameters(text()), from, limit }, signal);
  const pages = new Pages({ root: $('#slow'), noun: 'slow request', table, ask });
  const list = () => {
    table.explain(text() ? 'No slow request passes the filter. Pauses of members are in the list without one.' : 'No request of the last hour took longer than its threshold, and no member was paused for as long.');
    pages.first();
  };
  // The filter is part of the address, so that it can be sent.
  const filter = () => {
    replacePageAddress(pageAddress('slow', text()));
    list();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    filter();
  });
  form.addEventListener('reset', () => setTimeout(filter));
  registerWindow('slow', openRequest);
  return {
    open: (about) => {
      form.elements.about.value = about;
      list();
    },
    close: () => pages.stop(),
    changed: () => pages.refresh(), // with other credentials, the user sees other paths
  };
}

const incomplete = 'the other members are still being asked';

function longestStage(r) {
  const longest = Math.max(0, ...r.stages.map((s) => s.took_us));
  return `${formatMicros(longest)}: ${r.largest}${r.complete ? '' : ` (${incomplete})`}`;
}

// openRequest opens the window of a request, with all its stages.
const openRequest = (id) => openRefreshingDialog({
  title: `Slow request ${id}`,
  read: (signal) => getJSON(`slow/${encodeURIComponent(id)}`, {}, signal),
  fill: (r, body) => {
    if (body.childElementCount === 0) {
      body.append(factList([]), h('div'));
    }
    updateFacts(body.firstChild, requestFacts(r));
    setContent(body.lastChild, h('div', {},
      timeList('Stages', r.stages.map((s) => [s.took_us, s.text])),
      timeList('Meanwhile', r.causes.map((c) => [c.took_us, causeText(c)]))));
  },
});

function requestFacts(r) {
  return [
    ['Received', `${formatTime(r.received)} (${timeSince(r.received)})`],
    ['At', r.received, 'code'],
    ['Member', `member ${r.member}`],
    ['Session', r.session ? h('button', { type: 'button', class: 'name', onclick: () => visitWindow('session', r.session) }, r.session) : null],
    ['Address', r.address || null, 'code'],
    ['Operation', r.op],
    ['Path', r.path ? h('a', { href: pageAddress('nodes', r.path) }, visibleText(r.path)) : null, 'code'],
    ['Took', formatMicros(r.total_us)],
    ['Reply', r.lost ? 'none: the connection ended' : null],
    ['Missing', r.missing.length > 0 ? `what these members recorded: ${r.missing.join(', ')}` : null],
    ['Error', r.error_us > 0 ? `a stage between two members may be wrong by ${formatMicros(r.error_us)}` : null],
    ['Not known yet', r.complete ? null : incomplete],
  ];
}

// timeList returns times, each with what took it, or null if there are none.
const timeList = (title, rows) => (rows.length === 0 ? null : h('div', {},
  h('h3', {}, title),
  h('ol', { class: 'times', 'aria-label': title }, rows.map(([us, text]) => h('li', {}, h('span', { class: 'number' }, formatMicros(us)), h('span', {}, text))))));

const causeText = (c) => ({
  paused: `the process of member ${c.member} did not run`,
  'paused before': `the process of member ${c.member} had not run, and the request may have waited for that long`,
  'no leader': `member ${c.member} had no leader that serves`,
  snapshot: `member ${c.member} wrote a snapshot`,
  backup: `member ${c.member} wrote a backup`,
  'slow sync': `member ${c.member} was in a slow sync of the log`,
}[c.cause] ?? `something else on member ${c.member}`);
