// Starts the page: the views, the stream of events that feeds them, and the way from one to the other.

import * as axis from './axis.js';
import * as ends from './ends.js';
import * as ensemble from './ensemble.js';
import * as leaders from './leaders.js';
import * as nodes from './nodes.js';
import * as session from './session.js';
import * as sessions from './sessions.js';
import * as signin from './signin.js';
import * as tiles from './tiles.js';
import { arrive, here, page, read } from './address.js';
import { me } from './credentials.js';
import { leave } from './dialog.js';
import { $, put, write } from './dom.js';
import { members } from './ensemble.js';
import { asOf, sentence } from './format.js';
import { peers } from './peers.js';
import { Stream } from './stream.js';
import { follow } from './windows.js';

// A part hears events by their names (hear). It may be told of the tab that it belongs to being opened, with
// the rest of the address (open), and left (close), of credentials that changed (changed), and of the stream
// (live, lost).
const parts = {
  tiles: { tab: 'overview', ...tiles.start() },
  axis: { tab: 'overview', ...axis.start() },
  ensemble: { tab: 'overview', ...ensemble.start() },
  leaders: { tab: 'overview', ...leaders.start() },
  ends: { tab: 'ends', ...ends.start() },
  sessions: { tab: 'sessions', ...sessions.start() },
  nodes: { tab: 'nodes', ...nodes.start() },
};
session.start();
const all = Object.values(parts);
const tell = (name, ...values) => all.forEach((part) => part[name]?.(...values));

// The tabs.

// go shows the page that the address names, and the window over it. A page that is there stays as it is.
function go(first) {
  const address = read();
  if (address.tab === '' && !first) {
    return; // of an element of the page, such as #main
  }
  const tab = address.tab || 'overview';
  const rest = address.rest;
  const section = document.getElementById(tab);
  if (section?.tagName !== 'SECTION') {
    location.replace(page('overview'));
    return;
  }
  if (page(tab, rest) !== here()) {
    leave();
    turn(tab, section, first);
    arrive(page(tab, rest));
    for (const part of all.filter((p) => p.tab === tab)) {
      part.open?.(rest);
    }
    if (tab === 'overview') {
      tell('overview');
    }
  }
  follow();
}

// turn shows the section of a tab, if it is another than before.
function turn(tab, section, first) {
  const before = $('main > section:not([hidden])');
  if (before === section) {
    return;
  }
  for (const part of all.filter((p) => p.tab === before?.id)) {
    part.close?.();
  }
  document.querySelectorAll('main > section').forEach((s) => {
    s.hidden = s !== section;
  });
  document.querySelectorAll('nav a').forEach((a) => {
    a.toggleAttribute('aria-current', a.hash === page(tab));
    if (a.hash === page(tab)) {
      a.setAttribute('aria-current', 'page');
    }
  });
  title();
  if (!first) {
    $('h1', section).focus();
    scrollTo(0, 0);
  }
}

// The member that serves the page.

function title() {
  const name = $('nav a[aria-current]')?.textContent;
  document.title = `${name}${me.member ? ` · member ${me.member}` : ''} · Rollcall`;
}

function place(answer) {
  const member = answer.items.find((m) => m.member === me.member);
  write($('#where'), member ? `member ${member.member}, ${member.role || 'serves nobody'}` : '');
}

// The stream.

// behind is how old the status of the members and the buckets may be, in milliseconds, before the page says as of when they are. The
// member sends both each second, but not while it has too many questions to answer or waits for its own state.
const behind = 5000;

const times = { status: 0, buckets: 0 }; // when each of them was heard; 0: not yet
let latest = null; // the last status
let state = 'connecting'; // of the stream
let counting = 0;

function hear(name, data) {
  if (name in times) {
    times[name] = Date.now();
    light();
  }
  if (name === 'status') {
    latest = data;
    place(data);
  }
  for (const part of all) {
    part.hear?.[name]?.(data);
  }
}

// seen returns as of when the page is, or 0 if it shows nothing yet.
const seen = () => Math.min(...Object.values(times));

// light says whether what the page shows is what is.
function light() {
  const last = seen();
  const old = last !== 0 && (state === 'lost' || Date.now() - last > behind);
  const live = $('#live');
  live.dataset.state = state === 'live' && old ? 'lost' : state;
  const then = last === 0 ? '' : asOf(last);
  write(live, state === 'lost' ? `Not live${then && `, ${then}`}` : old ? `Not live, ${then}` : { connecting: 'Connecting…', live: 'Live' }[state]);
  document.body.toggleAttribute('data-stale', state === 'lost' || old);
}
setInterval(light, 1000);

const stream = new Stream(hear, (now, error, wait) => {
  if (now !== 'connecting' || state !== 'lost') { // while a page is not live, each further try leaves it so
    state = now;
  }
  light();
  clearInterval(counting);
  if (now === 'live') {
    $('#alarm').hidden = true;
    signin.learn().then(() => {
      title();
      tell('changed');
    }).catch(() => {}); // the stream tells of a member that is lost
    tell('live');
  }
  if (now === 'lost') {
    tell('lost');
    alarm(error, wait);
  }
});

// alarm says that the stream broke. The text that a screen reader speaks changes once per loss, and the
// seconds until the next try only for the eye.
function alarm(error, wait) {
  const last = seen();
  write($('#alarm p'), `${sentence(error.message)}${last === 0 ? '' : ` What you see is ${asOf(last)}.`} Trying again.`);
  const others = latest && peers(members(latest), me.member);
  $('#alarm .others').hidden = !others;
  put($('#alarm .others > div'), others ?? '');
  $('#alarm').hidden = false;
  const due = Date.now() + wait;
  const button = $('#alarm button');
  const show = () => write(button, `Try now (${Math.max(0, Math.ceil((due - Date.now()) / 1000))} s)`);
  show();
  counting = setInterval(show, 1000);
}

$('#alarm button').addEventListener('click', () => stream.start());

// A page that nobody looks at asks for nothing: a browser has few connections to a member, and every page
// takes one.
document.addEventListener('visibilitychange', () => (document.hidden ? stream.stop() : stream.start()));

document.addEventListener('acted', () => tell('changed'));
window.addEventListener('hashchange', () => go(false));
signin.start(() => {
  tell('changed');
  stream.start();
});
go(true);
stream.start();
