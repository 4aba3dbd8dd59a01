// Elements of the page. What comes from outside goes into text nodes and values of attributes only.

export const $ = (selector, root = document) => root.querySelector(selector);

// h returns an element. It omits attributes that are false, null or undefined; true is an attribute without a
// value. An attribute on… is a listener. Children are elements or texts; it omits false and null.
export function h(tag, attributes, ...children) {
  return addAttributes(document.createElement(tag), attributes, children);
}

// svg returns an element of a picture likewise.
export function svg(tag, attributes, ...children) {
  return addAttributes(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function addAttributes(element, attributes, children) {
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

// setText sets a text unless it is there already, so that a reader's selection survives.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// updateChildren makes the children of parent match rows, in order. It keeps and updates a child whose key is
// there already, so that the child keeps the focus. key returns a row's key, make a new child, and update fills
// it in.
export function updateChildren(parent, rows, key, make, update) {
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

// announce has a screen reader speak a text.
export function announce(text) {
  const line = $('#say');
  line.textContent = '';
  line.textContent = text;
}

// setContent makes value, a text or an element, the content of parent. It keeps content that reads the same,
// with its focus.
export function setContent(parent, value) {
  if (!(value instanceof Node)) {
    setText(parent, String(value));
  } else if (parent.childNodes.length !== 1 || !parent.firstChild.isEqualNode(value)) {
    parent.replaceChildren(value);
  }
}

// factList returns a list of names and values. It omits rows whose value is null.
export const factList = (rows) => updateFacts(h('dl', { class: 'facts' }), rows);

// updateFacts replaces the rows of a factList, and returns the list.
export function updateFacts(list, rows) {
  updateChildren(list, rows.filter(([, value]) => value != null), ([name]) => name, ([name]) => h('div', {}, h('dt', {}, name), h('dd')), (div, [, value, kind = '']) => {
    div.lastChild.className = kind;
    setContent(div.lastChild, value);
  });
  return list;
}

// badge returns a word that stands out. tone is "good", "warn", "bad" or "plain".
export function badge(text, tone = 'plain') {
  return h('span', { class: `badge ${tone}` }, text);
}
