// A tree of nodes that asks for children when they are looked at. Its keys are those of every tree: up and
// down, right opens, left closes or goes to the parent, Home and End, Enter chooses.

import { $, h } from './dom.js';
import { visibleText } from './format.js';

// pageNames is how many children are asked for at a time.
const pageNames = 200;

// Tree shows the nodes below / in a list. children(path, from, limit, signal) resolves to {names, next}; signal may be undefined.
// choose(path) is called for a node that the user picks.
export class Tree {
  #root;
  #children;
  #choose;

  constructor(root, children, choose) {
    this.#root = root;
    this.#children = children;
    this.#choose = choose;
    root.addEventListener('keydown', (event) => this.#press(event));
    root.addEventListener('click', (event) => this.#click(event));
    root.append(this.#item('/', '/', 1));
    $('[role=treeitem]', root).tabIndex = 0;
  }

  // reveal opens the way to a node, and marks it, without moving the focus.
  async reveal(path) {
    let item = this.#root.firstElementChild;
    for (const part of path.split('/').filter(Boolean)) {
      await this.#expand(item);
      item = childItem(item, part) ?? this.#beyond(item, part) ?? await this.#young(item, part);
      if (!item) {
        return;
      }
    }
    this.#mark(item);
    await this.#expand(item);
  }

  // renew asks for the children of a node again, after a change.
  async renew(path) {
    const item = this.#find(path);
    if (item) {
      childList(item)?.remove();
      item.setAttribute('aria-expanded', 'false');
      await this.#expand(item);
    }
  }

  // refresh asks again for the children that are shown, one node after the other, until signal ends it. What is open stays open.
  async refresh(signal) {
    for (const item of [...this.#root.querySelectorAll('[aria-expanded=true]')].filter((one) => one.offsetParent !== null)) {
      if (signal.aborted) {
        return;
      }
      await this.#renewed(item, signal).catch(() => {}); // the node's own page says what is wrong
    }
  }

  // grown says how many children a node has, which may have been a leaf.
  grown(path, children) {
    const item = this.#find(path);
    if (item && children > 0 && !item.hasAttribute('aria-expanded')) {
      item.setAttribute('aria-expanded', 'false');
    }
  }

  // renewed makes the list of an open node that of its children as they are now, as far as it has been asked for.
  async #renewed(item, signal) {
    const list = childList(item);
    const had = list.children.length;
    let [names, next] = [[], ''];
    do {
      const part = await this.#children(item.dataset.path, next, pageNames, signal);
      names = names.concat(part.names);
      next = part.next;
    } while (next !== '' && names.length < had - 1);
    if (!item.isConnected || childList(item) !== list) {
      return; // it was renewed meanwhile
    }
    const here = new Map([...list.children].map((child) => [child.dataset.name, child]));
    const level = Number(item.getAttribute('aria-level')) + 1;
    const kept = names.map((name) => here.get(name) ?? this.#item(childPath(item.dataset.path, name), name, level));
    // A child that was looked for by its path may be further down than the list goes.
    const beyond = next === '' ? [] : [...list.children].filter((child) => child.dataset.beyond && !names.includes(child.dataset.name));
    const all = [...kept, ...beyond, ...(next === '' ? [] : [here.get(undefined) ?? moreItem(level)])];
    if (next !== '') {
      all.at(-1).dataset.from = next;
    }
    const lost = list.contains(document.activeElement) && !all.some((child) => child.contains(document.activeElement));
    arrangeChildren(list, all);
    if (list.children.length === 0) {
      list.remove();
      item.removeAttribute('aria-expanded');
    }
    if (lost || !$('[tabindex="0"]', this.#root)) {
      this.#rest(item, lost);
    }
  }

  // rest makes an item the one that the key Tab goes to, and gives it the focus if the one that had it is gone.
  #rest(item, focus) {
    item.tabIndex = 0;
    if (focus) {
      this.#focus(item);
    }
  }

  #find(path) {
    return [...this.#root.querySelectorAll('[role=treeitem]')].find((item) => item.dataset.path === path);
  }

  // young looks for a child that has come since the list was made.
  async #young(parent, name) {
    if (!childList(parent)) {
      return null;
    }
    await this.#renewed(parent);
    return childItem(parent, name);
  }

  // beyond adds a child that is not among those asked for so far.
  #beyond(parent, name) {
    const list = childList(parent);
    const last = list && $(':scope > .more', list);
    if (!last) {
      return null;
    }
    const item = this.#item(childPath(parent.dataset.path, name), name, Number(parent.getAttribute('aria-level')) + 1);
    item.dataset.beyond = 'yes';
    last.before(item);
    return item;
  }

  #item(path, name, level) {
    const label = h('span', { class: 'label' }, h('span', { class: 'turn', 'aria-hidden': 'true' }), h('span', { class: 'text' }, visibleText(name)));
    return h('li', { role: 'treeitem', 'aria-expanded': 'false', 'aria-selected': 'false', 'aria-level': level, 'aria-label': visibleText(name), tabindex: '-1', 'data-path': path, 'data-name': name }, label);
  }

  async #expand(item) {
    if (item.getAttribute('aria-expanded') !== 'false' || item.hasAttribute('aria-busy')) {
      return;
    }
    item.setAttribute('aria-busy', 'true');
    try {
      const list = childList(item) ?? h('ul', { role: 'group' });
      const again = list.isConnected;
      if (!again) {
        await this.#more(item, list, '');
        item.append(list);
      }
      item.setAttribute('aria-expanded', 'true');
      if (again) {
        await this.#renewed(item);
        return;
      }
      if (list.children.length === 0) {
        list.remove();
        item.removeAttribute('aria-expanded'); // a leaf
      }
    } finally {
      item.removeAttribute('aria-busy');
    }
  }

  // moreItem adds the children from a cursor on, and a line that adds those after them.
  async #more(item, list, from) {
    const { names, next } = await this.#children(item.dataset.path, from, pageNames);
    const level = Number(item.getAttribute('aria-level')) + 1;
    const there = new Set([...list.children].map((child) => child.dataset.name));
    list.append(...names.filter((name) => !there.has(name)).map((name) => this.#item(childPath(item.dataset.path, name), name, level)));
    if (next !== '') {
      list.append(moreItem(level));
      list.lastChild.dataset.from = next;
    }
  }

  async #turn(line) {
    const list = line.parentElement;
    const before = line.previousElementSibling;
    await this.#more(list.parentElement, list, line.dataset.from);
    line.remove();
    this.#focus(before?.nextElementSibling ?? list.lastElementChild);
  }

  #click(event) {
    const item = event.target.closest('[role=treeitem]');
    if (item && event.target.closest('.turn')) {
      this.#focus(item);
      this.#toggle(item);
    } else if (item) {
      this.#pick(item);
    }
  }

  #pick(item) {
    this.#focus(item);
    if (item.classList.contains('more')) {
      this.#turn(item).catch(() => {});
      return;
    }
    this.#mark(item);
    this.#choose(item.dataset.path);
    this.#expand(item).catch(() => {}); // the node's own page says what is wrong
  }

  #toggle(item) {
    if (item.getAttribute('aria-expanded') === 'true') {
      item.setAttribute('aria-expanded', 'false');
    } else {
      this.#expand(item).catch(() => {});
    }
  }

  #press(event) {
    const item = event.target.closest('[role=treeitem]');
    const seen = [...this.#root.querySelectorAll('[role=treeitem]')].filter((one) => one.offsetParent !== null);
    const at = seen.indexOf(item);
    const open = item.getAttribute('aria-expanded');
    const parent = item.parentElement.closest('[role=treeitem]');
    const actions = {
      ArrowDown: () => this.#focus(seen[at + 1]),
      ArrowUp: () => this.#focus(seen[at - 1]),
      Home: () => this.#focus(seen[0]),
      End: () => this.#focus(seen.at(-1)),
      ArrowRight: () => (open === 'true' ? this.#focus(seen[at + 1]) : this.#toggle(item)),
      ArrowLeft: () => (open === 'true' ? this.#toggle(item) : this.#focus(parent)),
      Enter: () => this.#pick(item),
      ' ': () => this.#pick(item),
    };
    if (actions[event.key] && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    }
  }

  #focus(item) {
    if (item) {
      for (const one of this.#root.querySelectorAll('[tabindex="0"]')) {
        one.tabIndex = -1;
      }
      item.tabIndex = 0;
      item.focus();
    }
  }

  #mark(item) {
    for (const one of this.#root.querySelectorAll('[aria-selected=true]')) {
      one.setAttribute('aria-selected', 'false');
    }
    item.setAttribute('aria-selected', 'true');
    item.querySelector('.label').scrollIntoView({ block: 'nearest' });
  }
}

// moreItem returns the line that adds further children.
const moreItem = (level) => h('li', { role: 'treeitem', class: 'more', 'aria-level': level, 'aria-selected': 'false', tabindex: '-1' }, h('span', { class: 'label' }, 'more…'));

// arrangeChildren sets the children of list, and moves none that is in its place.
function arrangeChildren(list, all) {
  let next = list.firstElementChild;
  for (const child of all) {
    if (child === next) {
      next = next.nextElementSibling;
    } else {
      list.insertBefore(child, next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextElementSibling;
    gone.remove();
  }
}

const childItem = (item, name) => [...(childList(item)?.children ?? [])].find((one) => one.dataset.name === name);

const childList = (item) => $(':scope > [role=group]', item);

export const childPath = (parent, name) => (parent === '/' ? `/${name}` : `${parent}/${name}`);

export const parentPath = (path) => path.slice(0, path.lastIndexOf('/')) || '/';
