// Lists that the member hands out page by page. The page of the browser holds one of them.

import { $, write } from './dom.js';
import { count } from './format.js';

// size is how many rows a page has: enough to look through, and few enough for every browser.
const size = 100;
// every is how often a page that is looked at is asked for again, in milliseconds.
const every = 3000;

// Pages shows a list in root, whose elements are in page.html. ask(from, limit, signal) resolves to a page.
export class Pages {
  #root;
  #table;
  #ask;
  #noun;
  #froms = ['']; // cursors of the pages up to this one
  #counts = []; // rows on the pages before this one
  #next = '';
  #question = null; // AbortController
  #timer = 0;
  #open = false;

  constructor({ root, table, ask, noun }) {
    this.#root = root;
    this.#table = table;
    this.#ask = ask;
    this.#noun = noun;
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

  rows = 0;

  // load shows a page. If it is asked for by the user, its errors are shown at once; a page that is asked
  // for again stays as it is, and the user is told.
  async #load(asked) {
    clearTimeout(this.#timer);
    this.#question?.abort();
    const question = new AbortController();
    this.#question = question;
    if (asked) {
      this.#root.setAttribute('aria-busy', 'true');
    }
    try {
      const page = await this.#ask(this.#froms.at(-1), size, question.signal);
      this.#show(page);
      this.#note(silence(page.silent));
    } catch (err) {
      if (err.name === 'AbortError') {
        return;
      }
      if (asked) {
        this.#show({ items: [], next: '', silent: [] });
      }
      this.#note(err.message);
    }
    this.#root.removeAttribute('aria-busy');
    if (this.#open) {
      this.#timer = setTimeout(() => this.refresh(), every);
    }
  }

  #show(page) {
    this.rows = page.items.length;
    this.#next = page.next;
    this.#table.show(page.items);
    const before = this.#counts.reduce((sum, n) => sum + n, 0);
    const text = this.rows === 0 ? `No ${this.#noun}s` : `${this.#noun}s ${count(before + 1)} to ${count(before + this.rows)}${page.next ? '' : ', the last'}`;
    write($('.pager p', this.#root), text);
    $('[data-to=back]', this.#root).disabled = this.#froms.length === 1;
    $('[data-to=on]', this.#root).disabled = page.next === '';
  }

  #note(text) {
    const note = $('.note', this.#root);
    note.hidden = text === '';
    write(note, text);
  }
}

// silence says which members a page lacks the rows or facts of.
function silence(all) {
  return all.length === 0 ? '' : `Not everything is known: ${all.map((s) => `member ${s.member} (${s.reason})`).join(', ')}.`;
}
