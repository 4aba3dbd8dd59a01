// Elements of the page. What comes from outside goes into text nodes and values of attributes only.

export const $ = (selector, root = document) => root.querySelector(selector);

// h returns an element. Attributes that are true have no value, and those that are false, null or undefined
// are left out. An attribute on… is a listener. Children are elements or texts; false and null are left out.
export function h(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

// svg does the same for a picture.
export function svg(tag, attributes, ...children) {
  return furnish(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== false && value != null) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

// write sets a text, and leaves the page alone if it is there already: a reader's selection survives.
export function write(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// keep makes the children of parent those of rows, in order. A child whose key is there already is updated,
// so that it keeps the focus. key returns a row's key, make a new child, and update fills it in.
export function keep(parent, rows, key, make, update) {
  const old = new Map();
  const unused = new Set(parent.children);
  for (const child of parent.children) {
    old.set(child.dataset.key, child);
  }
  let next = parent.firstElementChild;
  for (const row of rows) {
    const name = String(key(row));
    let child = old.get(name);
    old.delete(name);
    if (child) {
      unused.delete(child);
    } else {
      child = make(row);
      child.dataset.key = name;
    }
    update(child, row);
    if (child === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(child, next);
    }
  }
  for (const child of unused) {
    child.remove();
  }
}

// say has a screen reader speak a text, when it is done with what it says.
export function say(text) {
  const line = $('#say');
  line.textContent = '';
  line.textContent = text;
}

// put makes value, a text or an element, the content of an element. What reads the same stays, so that it keeps the focus.
export function put(parent, value) {
  if (!(value instanceof Node)) {
    write(parent, String(value));
  } else if (parent.childNodes.length !== 1 || !parent.firstChild.isEqualNode(value)) {
    parent.replaceChildren(value);
  }
}

// facts returns a list of names and values. A row whose value is null is left out.
export const facts = (rows) => renew(h('dl', { class: 'facts' }), rows);

// renew makes rows those of a list that facts has returned, and returns the list.
export function renew(list, rows) {
  keep(list, rows.filter(([, value]) => value != null), ([name]) => name, ([name]) => h('div', {}, h('dt', {}, name), h('dd')), (div, [, value, kind = '']) => {
    div.lastChild.className = kind;
    put(div.lastChild, value);
  });
  return list;
}

// badge returns a word that stands out. tone is "good", "warn", "bad" or "plain".
export function badge(text, tone = 'plain') {
  return h('span', { class: `badge ${tone}` }, text);
}
