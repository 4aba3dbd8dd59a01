// Starts the page: the views, the stream of events that feeds them, and the way from one to the other.

import * as axis from './axis.js';
import * as ends from './ends.js';
import * as ensemble from './ensemble.js';
import * as nodes from './nodes.js';
import * as sessions from './sessions.js';
import * as signin from './signin.js';
import * as tiles from './tiles.js';
import { me } from './credentials.js';
import { $, write } from './dom.js';
import { span } from './format.js';
import { Stream } from './stream.js';

// A part hears events by their names (hear). It may be told of the tab that it belongs to being opened, with
// the rest of the address (open), and left (close), of credentials that changed (changed), and of the stream
// (live, lost).
const parts = {
  tiles: { tab: 'overview', ...tiles.start() },
  axis: { tab: 'overview', ...axis.start() },
  ensemble: { tab: 'overview', ...ensemble.start() },
  ends: { tab: 'ends', ...ends.start() },
  sessions: { tab: 'sessions', ...sessions.start() },
  nodes: { tab: 'nodes', ...nodes.start() },
};
const all = Object.values(parts);
const tell = (name, ...values) => all.forEach((part) => part[name]?.(...values));

// The tabs.

let tab = '';

// go shows the tab that the address names: #/TAB or #/TAB/REST.
function go(first) {
  const [, name, rest] = /^#\/([a-z]+)(?:\/(.*))?$/s.exec(location.hash) ?? [null, tab || 'overview', ''];
  const section = document.getElementById(name);
  if (section?.tagName !== 'SECTION') {
    location.replace('#/overview');
    return;
  }
  if (name !== tab) {
    for (const part of all.filter((p) => p.tab === tab)) {
      part.close?.();
    }
    document.querySelectorAll('main > section').forEach((s) => {
      s.hidden = s !== section;
    });
    document.querySelectorAll('nav a').forEach((a) => {
      a.toggleAttribute('aria-current', a.hash === `#/${name}`);
      if (a.hash === `#/${name}`) {
        a.setAttribute('aria-current', 'page');
      }
    });
    tab = name;
    title();
    if (!first) {
      $('h1', section).focus();
      scrollTo(0, 0);
    }
  }
  for (const part of all.filter((p) => p.tab === name)) {
    part.open?.(decoded(rest ?? ''));
  }
  if (name === 'overview') {
    tell('overview');
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
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

let last = 0; // when something was heard
let counting = 0;

function hear(name, data) {
  last = Date.now();
  if (name === 'status') {
    place(data);
  }
  for (const part of all) {
    part.hear?.[name]?.(data);
  }
}

const stream = new Stream(hear, (state, error, wait) => {
  const live = $('#live');
  if (state !== 'connecting' || live.dataset.state === 'connecting') {
    live.dataset.state = state;
    write(live, { connecting: 'Connecting…', live: 'Live', lost: 'Not live' }[state]);
  }
  clearInterval(counting);
  document.body.toggleAttribute('data-stale', state === 'lost');
  if (state === 'live') {
    $('#alarm').hidden = true;
    signin.learn().then(() => {
      title();
      tell('changed');
    }).catch(() => {}); // the stream tells of a member that is lost
    tell('live');
  }
  if (state === 'lost') {
    tell('lost');
    alarm(error, wait);
  }
});

// alarm says that the stream broke. The text that a screen reader speaks changes once per loss, and the
// seconds until the next try only for the eye.
function alarm(error, wait) {
  const line = $('#alarm p');
  const old = last === 0 ? '' : ` What you see is ${span(Date.now() - last)} old.`;
  write(line, `${error.message}${old} Trying again.`);
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
