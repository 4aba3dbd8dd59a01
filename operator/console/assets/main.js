// Starts the page: the views, the stream of events that feeds them, and the way from one to the other.

import * as axis from './axis.js';
import * as ends from './ends.js';
import * as ensemble from './ensemble.js';
import * as leaders from './leaders.js';
import * as nodes from './nodes.js';
import * as session from './session.js';
import * as sessions from './sessions.js';
import * as signin from './signin.js';
import * as slow from './slow.js';
import * as tiles from './tiles.js';
import { currentPageAddress, pageAddress, readAddress, setCurrentPage } from './address.js';
import { caller } from './credentials.js';
import { closeDialogs } from './dialog.js';
import { $, setContent, setText } from './dom.js';
import { memberRows } from './ensemble.js';
import { asOf, withFullStop } from './format.js';
import { consoleLinks } from './peers.js';
import { Stream } from './stream.js';
import { followAddress } from './windows.js';

// A part handles events by name (hear). Its other methods are optional: open with the rest of the address and
// close for its tab, changed for credentials, and live and lost for the stream.
const pageParts = {
  tiles: { tab: 'overview', ...tiles.start() },
  axis: { tab: 'overview', ...axis.start() },
  ensemble: { tab: 'overview', ...ensemble.start() },
  leaders: { tab: 'overview', ...leaders.start() },
  ends: { tab: 'ends', ...ends.start() },
  sessions: { tab: 'sessions', ...sessions.start() },
  slow: { tab: 'slow', ...slow.start() },
  nodes: { tab: 'nodes', ...nodes.start() },
};
session.start();
const allParts = Object.values(pageParts);
const notifyParts = (name, ...values) => allParts.forEach((part) => part[name]?.(...values));

// The tabs.

// showAddress shows the page of the address and the window over it. It leaves a page that is shown already.
function showAddress(first) {
  const address = readAddress();
  if (address.tab === '' && !first) {
    return; // of an element of the page, such as #main
  }
  const tab = address.tab || 'overview';
  const rest = address.rest;
  const section = document.getElementById(tab);
  if (section?.tagName !== 'SECTION') {
    location.replace(pageAddress('overview'));
    return;
  }
  if (pageAddress(tab, rest) !== currentPageAddress()) {
    closeDialogs();
    switchTab(tab, section, first);
    setCurrentPage(pageAddress(tab, rest));
    for (const part of allParts.filter((p) => p.tab === tab)) {
      part.open?.(rest);
    }
    if (tab === 'overview') {
      notifyParts('overview');
    }
  }
  followAddress();
}

// switchTab shows the section of another tab.
function switchTab(tab, section, first) {
  const before = $('main > section:not([hidden])');
  if (before === section) {
    return;
  }
  for (const part of allParts.filter((p) => p.tab === before?.id)) {
    part.close?.();
  }
  document.querySelectorAll('main > section').forEach((s) => {
    s.hidden = s !== section;
  });
  document.querySelectorAll('nav a').forEach((a) => {
    a.toggleAttribute('aria-current', a.hash === pageAddress(tab));
    if (a.hash === pageAddress(tab)) {
      a.setAttribute('aria-current', 'page');
    }
  });
  updateTitle();
  if (!first) {
    $('h1', section).focus();
    scrollTo(0, 0);
  }
}

// The member that serves the page.

function updateTitle() {
  const name = $('nav a[aria-current]')?.textContent;
  document.title = `${name}${caller.member ? ` · member ${caller.member}` : ''} · Rollcall`;
}

function updateMember(answer) {
  const member = answer.items.find((m) => m.member === caller.member);
  setText($('#where'), member ? `member ${member.member}, ${member.role || 'serves nobody'}` : '');
}

// The stream.

// maxStatusAge is the age of the status and of the buckets, in milliseconds, from which the page shows their
// time. The member sends both each second, but not while it has too many queries under way or waits for its own
// state.
const maxStatusAge = 5000;

const lastEvents = { status: 0, buckets: 0 }; // when each of them was heard; 0: not yet
let lastStatus = null; // the last status
let streamState = 'connecting'; // of the stream
let countdown = 0;

function handleEvent(name, data) {
  if (name in lastEvents) {
    lastEvents[name] = Date.now();
    updateLiveness();
  }
  if (name === 'status') {
    lastStatus = data;
    updateMember(data);
  }
  for (const part of allParts) {
    part.hear?.[name]?.(data);
  }
}

// oldestEvent returns the time of the oldest data on the page, or 0 if it shows nothing yet.
const oldestEvent = () => Math.min(...Object.values(lastEvents));

// isListUnanswered reports whether the member failed to reply to the last request for a list that is shown.
const isListUnanswered = () => [...document.querySelectorAll('[data-unanswered]')].some((list) => list.checkVisibility());

// updateLiveness shows whether the page is live.
function updateLiveness() {
  const last = oldestEvent();
  const old = last !== 0 && (streamState === 'lost' || Date.now() - last > maxStatusAge);
  const live = $('#live');
  live.dataset.state = streamState === 'live' && old ? 'lost' : streamState;
  const then = last === 0 ? '' : asOf(last);
  if (streamState === 'live' && !old && isListUnanswered()) {
    live.dataset.state = 'lost';
    setText(live, 'Live, except the list');
  } else {
    setText(live, streamState === 'lost' ? `Not live${then && `, ${then}`}` : old ? `Not live, ${then}` : { connecting: 'Connecting…', live: 'Live' }[streamState]);
  }
  document.body.toggleAttribute('data-stale', streamState === 'lost' || old);
}
setInterval(updateLiveness, 1000);
document.addEventListener('listed', updateLiveness);

const stream = new Stream(handleEvent, (now, error, wait) => {
  if (now !== 'connecting' || streamState !== 'lost') { // while a page is not live, each further try leaves it so
    streamState = now;
  }
  updateLiveness();
  clearInterval(countdown);
  if (now === 'live') {
    $('#alarm').hidden = true;
    signin.refreshCaller().then(() => {
      updateTitle();
      notifyParts('changed');
    }).catch(() => {}); // the stream tells of a member that is lost
    notifyParts('live');
  }
  if (now === 'lost') {
    notifyParts('lost');
    showAlarm(error, wait);
  }
});

// showAlarm reports a broken stream. The text for a screen reader changes once per loss; the seconds until the
// next try are only visible.
function showAlarm(error, wait) {
  const last = oldestEvent();
  setText($('#alarm p'), `${withFullStop(error.message)}${last === 0 ? '' : ` What you see is ${asOf(last)}.`} Trying again.`);
  const others = lastStatus && consoleLinks(memberRows(lastStatus), caller.member);
  $('#alarm .others').hidden = !others;
  setContent($('#alarm .others > div'), others ?? '');
  $('#alarm').hidden = false;
  const due = Date.now() + wait;
  const button = $('#alarm button');
  const show = () => setText(button, `Try now (${Math.max(0, Math.ceil((due - Date.now()) / 1000))} s)`);
  show();
  countdown = setInterval(show, 1000);
}

$('#alarm button').addEventListener('click', () => stream.start());

// A page that nobody looks at asks for nothing: a browser has few connections to a member, and every page
// takes one.
document.addEventListener('visibilitychange', () => (document.hidden ? stream.stop() : stream.start()));

document.addEventListener('acted', () => notifyParts('changed'));
window.addEventListener('hashchange', () => showAddress(false));
signin.start(() => {
  notifyParts('changed');
  stream.start();
});
showAddress(true);
stream.start();
