// The slider over the time of the kept log, and the moment that the user has chosen.

import { caller } from './credentials.js';
import { $, announce, setText } from './dom.js';
import { formatDateTime, withFullStop } from './format.js';
import { getJSON, getPast } from './requests.js';

// settleTime is the time for which the slider must rest before the member builds a state, in milliseconds.
const settleTime = 300;
// mostSteps limits the steps of the slider, so that keys move it on over a day.
const mostSteps = 500;
// maxAge is the age from which what is kept is asked for again, in milliseconds.
const maxAge = 60_000;

// Past is the slider. chosen() is called when the user has chosen another moment.
export class Past {
  #slider = $('#past-time');
  #chosen;
  #asked = 0; // when the member was asked what it keeps; 0: not yet
  #timer = 0;
  #moment = ''; // that the user has chosen; '': now
  #zxid = ''; // of the state of that moment; '': not known yet

  constructor(chosen) {
    this.#chosen = chosen;
    this.#slider.addEventListener('input', () => this.#moved());
    $('#past-now').addEventListener('click', () => this.toNow());
  }

  // isPast reports whether a moment of the past is chosen.
  get isPast() { return this.#moment !== ''; }

  // refresh asks what the member keeps, unless that is known, and enables the slider if there is a past to show.
  async refresh() {
    if (!caller.changes) {
      this.#asked = 0;
      this.#disable(`The past is for administrators: ${caller.why || 'sign in to see the sessions of an earlier moment'}`);
      return;
    }
    if (Date.now() - this.#asked < maxAge) {
      return;
    }
    this.#asked = Date.now();
    try {
      const { spans } = await getJSON('history');
      const oldest = spans.at(-1)?.snapshots[0]; // a part without a gap up to now is the last one
      if (oldest) {
        this.#enable(Date.parse(oldest.at));
      } else {
        this.#disable('This member keeps no snapshot yet, so there is no past to show');
      }
    } catch (err) {
      this.#asked = 0;
      this.#disable(err.message);
    }
  }

  // request returns a page of a list as of the moment. from is '' for the first page; the others are of the same state.
  async request(path, parameters, signal) {
    const moment = this.#moment;
    const first = !parameters.from || this.#zxid === '';
    const { answer, zxid, time } = await getPast(path, { ...parameters, at: first ? moment : this.#zxid }, signal);
    if (moment === this.#moment) {
      this.#zxid = zxid;
      const text = `${formatDateTime(moment)}: the state after zxid ${zxid}, of ${formatDateTime(time)}`;
      setText($('#past-moment'), text);
      this.#slider.setAttribute('aria-valuetext', text);
    }
    return answer;
  }

  toNow() {
    this.#slider.value = this.#slider.max;
    this.#moved();
    this.#slider.focus();
  }

  #enable(oldest) {
    const slider = this.#slider;
    const chosen = this.isPast ? Number(slider.value) : Infinity;
    const now = Math.floor(Date.now() / 1000);
    const first = Math.min(Math.ceil(oldest / 1000), now - 1);
    slider.min = first; // in seconds: the end of the slider is now
    slider.max = now;
    slider.step = Math.max(1, Math.ceil((now - first) / mostSteps));
    slider.max = first + Number(slider.step) * Math.ceil((now - first) / Number(slider.step));
    slider.value = Math.min(chosen, Number(slider.max));
    slider.disabled = false;
    setText($('#past-why'), `This member keeps its log since ${formatDateTime(first * 1000)}`);
    this.#label();
  }

  #disable(why) {
    this.#slider.disabled = true;
    setText($('#past-why'), withFullStop(why));
    if (this.isPast) {
      this.toNow();
    }
  }

  #moved() {
    const at = Number(this.#slider.value);
    const now = at >= Number(this.#slider.max);
    const moment = now ? '' : new Date(at * 1000).toISOString();
    if (moment === this.#moment) {
      return;
    }
    this.#moment = moment;
    this.#zxid = '';
    this.#label();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      announce(now ? 'The sessions of now' : `The sessions as of ${formatDateTime(moment)}`);
      this.#chosen();
    }, now ? 0 : settleTime);
  }

  #label() {
    const text = this.isPast ? formatDateTime(this.#moment) : 'Now';
    setText($('#past-moment'), text);
    this.#slider.setAttribute('aria-valuetext', text);
    $('#past-now').hidden = !this.isPast;
    $('#sessions').toggleAttribute('data-past', this.isPast);
  }
}
