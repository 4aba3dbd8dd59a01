// Lists that the member hands out page by page. The page of the browser holds one of them.

import { $, setText } from './dom.js';
import { asOf, formatCount, withFullStop } from './format.js';

// pageRows is the number of rows on a page.
const pageRows = 100;
// minRefreshInterval is the least time between two requests for a visible page, in milliseconds. A slow page is
// requested less often: the member works on it for at most a tenth of the time.
const minRefreshInterval = 3000;
const pauseRatio = 9;

// refreshPause returns the time until the next request, in milliseconds, after one that began at begun.
export const refreshPause = (begun) => Math.max(minRefreshInterval, pauseRatio * (Date.now() - begun));

// Pages shows a list in root, whose elements are in page.html. ask(from, limit, signal) resolves to a page.
// words(pages) describes the rows, unless it is missing or returns "". loaded(pages) is called after they are
// shown. While isFixed() holds, the rows cannot change, and refresh leaves them unless the member has failed to reply.
export class Pages {
  #root;
  #table;
  #ask;
  #noun;
  #words;
  #loaded;
  #isFixed;
  #heard = 0; // when the rows came
  #known = false; // the rows are those of a reply
  #froms = ['']; // cursors of the pages up to this one
  #counts = []; // rows on the pages before this one
  #next = '';
  #question = null; // AbortController
  #timer = 0;
  #open = false;

  constructor({ root, table, ask, noun, words = () => '', loaded = () => {}, isFixed = () => false }) {
    this.#root = root;
    this.#table = table;
    this.#ask = ask;
    this.#noun = noun;
    this.#words = words;
    this.#loaded = loaded;
    this.#isFixed = isFixed;
    $('.rows', root).append(table.element);
    $('[data-to=back]', root).addEventListener('click', () => this.#back());
    $('[data-to=on]', root).addEventListener('click', () => this.#on());
    document.addEventListener('visibilitychange', () => this.refresh());
  }

  // first shows the first page, and keeps the list up to date until stop.
  first() {
    this.#open = true;
    this.#froms = [''];
    this.#counts = [];
    return this.#load(true);
  }

  stop() {
    this.#open = false;
    clearTimeout(this.#timer);
    this.#question?.abort();
  }

  // refresh asks for the page again, if it is looked at.
  refresh() {
    if (this.#open && !document.hidden && (!this.#isFixed() || this.#root.hasAttribute('data-unanswered'))) {
      this.#load(false);
    }
  }

  #on() {
    if (this.#next !== '') {
      this.#counts.push(this.rows);
      this.#froms.push(this.#next);
      this.#load(true);
    }
  }

  #back() {
    if (this.#froms.length > 1) {
      this.#froms.pop();
      this.#counts.pop();
      this.#load(true);
    }
  }

  rows = 0; // of the page

  // seen returns how many rows there are up to the end of the page, whether the list ends there, whether the page is full, and
  // whether this is known at all.
  get seen() {
    return { count: this.#counts.reduce((sum, n) => sum + n, this.rows), last: this.#next === '', full: this.rows === pageRows, known: this.#known };
  }

  // load shows a page. If it is asked for by the user, its errors are shown at once; a page that is asked
  // for again stays as it is, and the user is told as of when it is.
  async #load(asked) {
    clearTimeout(this.#timer);
    this.#question?.abort();
    const question = new AbortController();
    this.#question = question;
    if (asked) {
      this.#root.setAttribute('aria-busy', 'true');
    }
    const begun = Date.now();
    try {
      const page = await this.#ask(this.#froms.at(-1), pageRows, question.signal);
      this.#heard = Date.now();
      this.#show(page);
      this.#note(silenceText(page.silent));
      this.#mark(false);
    } catch (err) {
      if (err.name === 'AbortError') {
        return;
      }
      if (asked) {
        this.#showUnknown();
      }
      this.#mark(!(err.status >= 400 && err.status < 500 || err.status === 501)); // 501: the member does not do that
      const old = !asked && this.rows > 0;
      this.#note(old ? `${withFullStop(err.message)} These rows are ${asOf(this.#heard)}.` : err.message, old);
    }
    this.#root.removeAttribute('aria-busy');
    if (this.#open) {
      this.#timer = setTimeout(() => this.refresh(), refreshPause(begun));
    }
  }

  // showUnknown shows that the page is not known. It may have rows, so the table does not say that there are none.
  #showUnknown() {
    this.#known = false;
    this.rows = 0;
    this.#next = '';
    this.#table.clear();
    setText($('.pager p', this.#root), 'Not known');
    this.#loaded(this);
    $('[data-to=back]', this.#root).disabled = this.#froms.length === 1;
    $('[data-to=on]', this.#root).disabled = true;
  }

  // mark notes whether the member failed to reply to the last request, for main.js.
  #mark(unanswered) {
    this.#root.toggleAttribute('data-unanswered', unanswered);
    document.dispatchEvent(new CustomEvent('listed'));
  }

  #show(page) {
    this.#known = true;
    this.rows = page.items.length;
    this.#next = page.next;
    this.#table.show(page.items);
    const last = this.seen.count;
    const text = this.rows === 0 ? `No ${this.#noun}s` : `${this.#noun}s ${formatCount(last - this.rows + 1)} to ${formatCount(last)}${page.next ? '' : ', the last'}`;
    setText($('.pager p', this.#root), this.#words(this) || text);
    this.#loaded(this);
    $('[data-to=back]', this.#root).disabled = this.#froms.length === 1;
    $('[data-to=on]', this.#root).disabled = page.next === '';
  }

  #note(text, old = false) {
    $('.rows', this.#root).toggleAttribute('data-old', old);
    const note = $('.note', this.#root);
    note.hidden = text === '';
    setText(note, text);
  }
}

// silenceText names the members whose rows or facts are missing.
function silenceText(all) {
  return all.length === 0 ? '' : `Not everything is known: ${all.map((s) => `member ${s.member} (${s.reason})`).join(', ')}.`;
}
