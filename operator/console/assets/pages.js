// Lists that the member hands out page by page. The page of the browser holds one of them.

import { $, write } from './dom.js';
import { asOf, count, sentence } from './format.js';

// size is how many rows a page has: enough to look through, and few enough for every browser.
const size = 100;
// every is how often a page that is looked at is asked for again, in milliseconds. A page that takes the member long is asked for
// less often: the member works at it for a tenth of the time at most.
const every = 3000;
const rest = 9;

// pause returns how long to wait before the next question, in milliseconds, if the one before began at a time and is answered now.
export const pause = (begun) => Math.max(every, rest * (Date.now() - begun));

// Pages shows a list in root, whose elements are in page.html. ask(from, limit, signal) resolves to a page. words(pages) says which
// rows are shown, if it is given and does not return "". loaded(pages) is called when they are shown.
export class Pages {
  #root;
  #table;
  #ask;
  #noun;
  #words;
  #loaded;
  #heard = 0; // when the rows came
  #froms = ['']; // cursors of the pages up to this one
  #counts = []; // rows on the pages before this one
  #next = '';
  #question = null; // AbortController
  #timer = 0;
  #open = false;

  constructor({ root, table, ask, noun, words = () => '', loaded = () => {} }) {
    this.#root = root;
    this.#table = table;
    this.#ask = ask;
    this.#noun = noun;
    this.#words = words;
    this.#loaded = loaded;
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
    if (this.#open && !document.hidden) {
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
  // whether there was an answer at all.
  get seen() {
    return { count: this.#counts.reduce((sum, n) => sum + n, this.rows), last: this.#next === '', full: this.rows === size, known: this.#heard > 0 };
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
      const page = await this.#ask(this.#froms.at(-1), size, question.signal);
      this.#heard = Date.now();
      this.#show(page);
      this.#note(silence(page.silent));
    } catch (err) {
      if (err.name === 'AbortError') {
        return;
      }
      if (asked) {
        this.#show({ items: [], next: '', silent: [] });
      }
      const old = !asked && this.rows > 0;
      this.#note(old ? `${sentence(err.message)} These rows are ${asOf(this.#heard)}.` : err.message, old);
    }
    this.#root.removeAttribute('aria-busy');
    if (this.#open) {
      this.#timer = setTimeout(() => this.refresh(), pause(begun));
    }
  }

  #show(page) {
    this.rows = page.items.length;
    this.#next = page.next;
    this.#table.show(page.items);
    const last = this.seen.count;
    const text = this.rows === 0 ? `No ${this.#noun}s` : `${this.#noun}s ${count(last - this.rows + 1)} to ${count(last)}${page.next ? '' : ', the last'}`;
    write($('.pager p', this.#root), this.#words(this) || text);
    this.#loaded(this);
    $('[data-to=back]', this.#root).disabled = this.#froms.length === 1;
    $('[data-to=on]', this.#root).disabled = page.next === '';
  }

  #note(text, old = false) {
    $('.rows', this.#root).toggleAttribute('data-old', old);
    const note = $('.note', this.#root);
    note.hidden = text === '';
    write(note, text);
  }
}

// silence says which members a page lacks the rows or facts of.
function silence(all) {
  return all.length === 0 ? '' : `Not everything is known: ${all.map((s) => `member ${s.member} (${s.reason})`).join(', ')}.`;
}
