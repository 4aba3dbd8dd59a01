// A table whose rows are updated in place, and whose keys work as in a list.

import { h, setContent, updateChildren } from './dom.js';

// Table shows rows. Columns have a title, a class, and a cell(row) that returns a text or an element. The
// first column is the row's name: if open is given, it is a button that calls open(row). Arrow keys, Home
// and End go from one to the next. key returns a row's key. The title of a column with an order is a button that calls sort(order).
export class Table {
  #columns;
  #key;
  #open;
  #body = h('tbody', { role: 'rowgroup' });
  #empty;
  #head;
  #rows = new WeakMap(); // of the elements

  constructor({ label, columns, key, open, empty, sort }) {
    this.#columns = columns;
    this.#key = key;
    this.#open = open;
    this.#empty = h('p', { class: 'empty', hidden: true }, empty);
    // The roles are named because narrow screens lay the table out as cards.
    const head = h('tr', { role: 'row' }, columns.map((c) => h('th', { role: 'columnheader', scope: 'col', class: c.kind, 'data-order': c.order },
      c.order ? h('button', { type: 'button', class: 'order', onclick: () => sort(c.order) }, c.title) : c.title)));
    this.#head = head;
    this.element = h('div', { class: 'scroll' },
      h('table', { role: 'table', 'aria-label': label }, h('thead', { role: 'rowgroup' }, head), this.#body), this.#empty);
    this.#body.addEventListener('keydown', (event) => this.#move(event));
    this.#body.addEventListener('focusin', (event) => this.#rest(event.target.closest('tr')));
  }

  // clear removes the rows, and does not say that there are none.
  clear() {
    this.show([]);
    this.#empty.hidden = true;
  }

  // show makes rows the rows of the table.
  show(rows) {
    updateChildren(this.#body, rows, this.#key, () => this.#make(), (tr, row) => this.#fill(tr, row));
    this.#empty.hidden = rows.length > 0;
    this.#rest(this.#body.querySelector('tr:focus-within') ?? this.#body.querySelector('tr:has([tabindex="0"])') ?? this.#body.firstElementChild);
  }

  // sorted marks the column by whose order the rows come. direction is "ascending" or "descending".
  sorted(order, direction) {
    for (const th of this.#head.children) {
      th.removeAttribute('aria-sort');
      if (order && th.dataset.order === order) {
        th.setAttribute('aria-sort', direction);
      }
    }
  }

  // explain sets what is said if there are no rows.
  explain(text) {
    setContent(this.#empty, text);
  }

  #make() {
    const tr = h('tr', { role: 'row' });
    this.#columns.forEach((column, i) => {
      const cell = h('td', { role: 'cell', class: column.kind, 'data-title': column.title });
      if (i === 0 && this.#open) {
        cell.append(h('button', { type: 'button', class: 'name', tabindex: '-1', onclick: () => this.#open(this.#rows.get(tr)) }));
      }
      tr.append(cell);
    });
    return tr;
  }

  #fill(tr, row) {
    this.#rows.set(tr, row);
    this.#columns.forEach((column, i) => {
      const cell = tr.children[i];
      setContent(i === 0 && this.#open ? cell.firstChild : cell, column.cell(row));
    });
  }

  // rest makes the row the one that the key Tab goes to.
  #rest(row) {
    for (const button of this.#body.querySelectorAll('.name[tabindex="0"]')) {
      button.tabIndex = -1;
    }
    const button = row?.querySelector('.name');
    if (button) {
      button.tabIndex = 0;
    }
  }

  #move(event) {
    const row = event.target.closest('tr');
    const to = {
      ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling,
      Home: this.#body.firstElementChild, End: this.#body.lastElementChild,
    }[event.key];
    const button = to?.querySelector('.name');
    if (button) {
      event.preventDefault();
      button.focus();
    }
  }
}
