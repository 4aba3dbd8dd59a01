// How sessions ended: the last few of them, and the list.

import { pageAddress, replacePageAddress } from './address.js';
import { clientParameters, getJSON } from './requests.js';
import { $, badge } from './dom.js';
import { formatCount, formatDuration, formatTime, unknownValue, visibleText } from './format.js';
import { Pages } from './pages.js';
import { removalPages } from './removals.js';
import { Table } from './table.js';
import { visitWindow } from './windows.js';

// overviewRows is the number of ends in the overview.
const overviewRows = 5;
// minPollInterval is the least time between two polls of the ends, in milliseconds.
const minPollInterval = 1000;

const reasonTones = { closed: 'plain', expired: 'warn', killed: 'bad' };

const mainColumns = [
  { title: 'Session', cell: (e) => e.id },
  { title: 'Ended', cell: (e) => formatTime(e.ended) },
  { title: 'Reason', cell: (e) => badge(e.reason, reasonTones[e.reason]) },
  { title: 'Address', kind: 'code', cell: (e) => e.address || unknownValue },
  { title: 'Member', kind: 'number', cell: (e) => e.member || unknownValue },
  { title: 'Silent for', kind: 'number', cell: (e) => formatDuration(e.silent_ms) },
];
const allColumns = [
  ...mainColumns,
  { title: 'Timeout', kind: 'number', cell: (e) => formatDuration(e.timeout_ms) },
  { title: 'Ephemerals', kind: 'number', cell: (e) => formatCount(e.ephemerals) },
  { title: 'By', kind: 'wide', cell: (e) => visibleText(e.by) || unknownValue },
];

function newEndTable(label, columns) {
  return new Table({ label, key: (e) => e.number, open: (e) => visitWindow('end', e.id), empty: 'No session has ended yet.', columns });
}

// start builds both tables, and returns the view for main.js.
export function start() {
  const latest = newEndTable('The last ends of sessions', mainColumns);
  $('#latest .rows').append(latest.element);
  const form = $('#why');
  const text = () => form.elements.about.value.trim();
  const ends = new Pages({
    root: $('#ends-list'),
    table: newEndTable('Ends of sessions', allColumns),
    noun: 'end',
    ask: (from, limit, signal) => getJSON('ends', { ...clientParameters(text()), from, limit }, signal),
  });
  const removals = removalPages(text);
  const list = () => {
    const node = text().startsWith('/');
    $('#ends-list').hidden = node;
    $('#removals-list').hidden = !node;
    (node ? ends : removals).stop();
    (node ? removals : ends).first();
  };
  // What is looked up is part of the address, so that it can be sent, and windows over the list know it.
  const ask = () => {
    replacePageAddress(pageAddress('ends', text()));
    list();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    ask();
  });
  form.addEventListener('reset', () => setTimeout(ask));

  let timer = 0;
  const look = async () => {
    timer = 0;
    ends.refresh();
    removals.refresh();
    if (!$('#overview').hidden) {
      latest.show((await getJSON('ends', { limit: overviewRows })).items);
    }
  };
  // If the member does not answer, it is asked again, as long as the stream does not say that it is lost.
  const soon = () => {
    timer ||= setTimeout(() => look().catch(() => document.body.hasAttribute('data-stale') || soon()), minPollInterval);
  };
  return {
    hear: { session: (e) => e.kind === 'ended' && soon(), omitted: soon },
    live: soon,
    overview: soon,
    open: (about) => {
      form.elements.about.value = about;
      list();
    },
    close: () => {
      ends.stop();
      removals.stop();
    },
  };
}
