// The tree of nodes, and one node. Who is signed in may create, set and delete.

import { pageAddress } from './address.js';
import { getJSON } from './requests.js';
import { authorization, caller } from './credentials.js';
import { decodeText, hexDump, toBase64, toBytes } from './data.js';
import { actionForm, confirmAction, openDialog } from './dialog.js';
import { $, announce, badge, factList, h, setContent, setText, updateFacts } from './dom.js';
import { asOf, formatBytes, formatCount, formatTime, timeSince, visibleLines, visibleText, withFullStop } from './format.js';
import { refreshPause } from './pages.js';
import { changeAsAdministrator, signIn } from './signin.js';
import { childPath, parentPath, Tree } from './tree.js';
import { visitWindow } from './windows.js';

// maxShownBytes limits the data of a node that are shown.
const maxShownBytes = 64 << 10;

// start builds the view, and returns it for main.js.
export function start() {
  const nodes = new Nodes();
  return { open: (path) => nodes.open(path || '/'), close: () => nodes.close(), changed: () => nodes.changed() };
}

class Nodes {
  #tree = new Tree($('#tree'), async (path, from, limit, signal) => {
    const node = await getJSON('nodes', { path, from, limit }, signal);
    return { names: node.children, next: node.next };
  }, (path) => visitNode(path));
  #path = '/';
  #node = null; // as it was read
  #heard = 0; // when that was
  #asked = 0;
  #as = ''; // the credentials with which it was read
  #open = false;
  #timer = 0;
  #refresh = null; // AbortController of the last time that the tree was read again
  #note = h('p', { class: 'note', role: 'status', hidden: true });
  #body = h('div');

  constructor() {
    $('#node').append(this.#note, this.#body);
    $('#path').addEventListener('submit', (event) => {
      event.preventDefault();
      visitNode(event.target.elements.path.value.trim());
    });
    document.addEventListener('visibilitychange', () => this.#again());
  }

  // open shows a node, and keeps it up to date until close.
  async open(path) {
    this.#open = true;
    this.#path = path;
    $('#path').elements.path.value = path;
    await this.#read();
    this.#tree.reveal(path).catch(() => {}); // the node's own page says what is wrong
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
    this.#refresh?.abort();
  }

  // changed shows what the user may do now. With other credentials, the user sees other data.
  async changed() {
    if (this.#asked === 0 || this.#as === authorization()) {
      this.draw();
      return;
    }
    await this.#read();
    this.#tree.reveal(this.#path).catch(() => {}); // likewise
  }

  // again reads the node and the tree again, if they are looked at. The user who opens another node ends it.
  async #again() {
    clearTimeout(this.#timer);
    this.#refresh?.abort();
    if (!this.#open || document.hidden) {
      return;
    }
    const begun = Date.now();
    const refresh = new AbortController();
    this.#refresh = refresh;
    await this.#read(true);
    await this.#tree.refresh(refresh.signal);
    if (!refresh.signal.aborted) {
      this.#wait(begun);
    }
  }

  // wait has the node and the tree read again, after a while that depends on how long it took since begun.
  #wait(begun) {
    clearTimeout(this.#timer);
    if (this.#open) {
      this.#timer = setTimeout(() => this.#again(), refreshPause(begun));
    }
  }

  // read reads the node. One that is read again stays as it was if the member does not answer, and the page says as of when it is.
  async #read(again = false) {
    clearTimeout(this.#timer);
    const begun = Date.now();
    const asked = ++this.#asked;
    this.#as = authorization();
    if (!again) {
      this.#refresh?.abort();
      $('#node').setAttribute('aria-busy', 'true');
    }
    let node = null;
    let failure;
    try {
      node = await getJSON('nodes', { path: this.#path, limit: 1 });
    } catch (err) {
      failure = err;
    }
    if (asked !== this.#asked) {
      return;
    }
    $('#node').removeAttribute('aria-busy');
    const old = again && this.#node !== null && failure && !(failure.status >= 400 && failure.status < 500);
    this.#note.hidden = !old;
    this.#body.toggleAttribute('data-old', !!old);
    if (old) {
      setText(this.#note, `${withFullStop(failure.message)} This node is ${asOf(this.#heard)}.`);
    } else {
      this.#node = node;
      this.#heard = Date.now();
      this.draw(failure);
    }
    if (!again) {
      this.#wait(begun);
    }
  }

  // draw shows the node that was read, or why there is none. What has not changed stays, with its focus and what is selected in it.
  draw(failure) {
    const node = this.#node;
    if (!node) {
      if (failure) {
        setContent(this.#body, h('div', {}, h('h2', { class: 'path' }, visibleText(this.#path)), h('p', { class: 'failure' }, failure.message),
          failure.status === 404 && h('p', {}, h('a', { href: pageAddress('ends', this.#path) }, 'What removed it'))));
      }
      return;
    }
    if (this.#body.children.length !== 5) {
      this.#body.replaceChildren(h('div'), h('h3', {}, 'Stat'), factList([]), h('h3', {}, 'Access'), h('div'));
    }
    const [top, , list, , acl] = this.#body.children;
    setContent(top, h('div', {}, h('h2', { class: 'path' }, visibleText(node.path)), ...this.#actions(node), ...dataElements(node)));
    updateFacts(list, statFacts(node.stat));
    setContent(acl, aclElement(node.acl));
    this.#tree.grown(node.path, node.stat.children);
  }

  // The buttons act on the node as it is when they are pressed.
  #actions(node) {
    if (authorization() === '') {
      return [h('p', { class: 'sub' }, 'Sign in to change nodes.')];
    }
    if (!caller.changes) {
      return [h('p', { class: 'sub' }, `You cannot change nodes from here: ${caller.why}.`)];
    }
    const button = (title, tone, run) => h('button', { type: 'button', class: tone, onclick: () => run(this.#node) }, title);
    return [h('div', { class: 'buttons' }, button('Create a child…', '', (now) => this.#create(now)),
      button('Set data…', '', (now) => this.#set(now)), node.path !== '/' && button('Delete…', 'danger', (now) => this.#delete(now)))];
  }

  #create(node) {
    this.#edit({
      title: `Create a child of ${visibleText(node.path)}`, verb: 'Create',
      fields: [
        h('label', {}, 'Name', h('input', { name: 'name', required: true, autofocus: true, pattern: '[^\\/]+', title: 'a name without /', spellcheck: 'false', autocapitalize: 'off' })),
        h('label', {}, 'Data', h('textarea', { name: 'data', rows: 6, spellcheck: 'false' })),
      ],
      act: (data) => changeAsAdministrator('nodes/create', { path: childPath(node.path, data.get('name')), data: encodeField(data) }),
      done: async ({ path }) => {
        await this.#tree.renew(node.path);
        visitNode(path);
        announce(`Node ${visibleText(path)} was created.`);
      },
    });
  }

  #set(node) {
    const all = toBytes(node.data);
    const long = all.length < node.stat.data_length; // the member sends no more
    const now = long ? '' : decodeText(all);
    const end = lineEnd(now ?? '');
    this.#edit({
      title: `Set the data of ${visibleText(node.path)}`, verb: 'Set',
      fields: [
        long && h('p', { class: 'note' }, `The node has ${formatBytes(node.stat.data_length)}. What you write here replaces all of them.`),
        now === null && h('p', { class: 'note' }, 'The data are not text. What you write here replaces them.'),
        now !== null && visibleLines(now) !== now && h('p', { class: 'note' }, 'The data have characters that nobody sees, or that turn the text around. Here they are as they are.'),
        end === null && h('p', { class: 'note' }, 'The lines of the data end in different ways. What you write here replaces them, with the same end for all lines.'),
        h('label', {}, 'Data', h('textarea', { name: 'data', rows: 10, autofocus: true, spellcheck: 'false' }, now ?? '')),
        h('p', { class: 'sub' }, `It is refused if somebody else has changed the node since: version ${node.stat.version} is replaced.`),
      ],
      act: (data) => changeAsAdministrator('nodes/set', { path: node.path, data: encodeField(data, end ?? '\n'), version: node.stat.version }),
      done: async () => {
        await this.#read();
        announce(`The data of ${visibleText(node.path)} were set.`);
      },
    });
  }

  #edit({ title, verb, fields, act, done }) {
    openDialog({ title, build: (close) => actionForm({ fields, verb, act, cancel: () => close(), done: (answer) => {
      close();
      done(answer);
    } }) });
  }

  async #delete(node) {
    const gone = await confirmAction({
      title: `Delete ${visibleText(node.path)}?`,
      text: [node.stat.children > 0 ? `It has ${formatCount(node.stat.children)} children, so the ensemble will refuse.` : 'It has no children.',
        ...(node.stat.owner ? [`It belongs to session ${node.stat.owner}, which may rely on it.`] : [])],
      verb: 'Delete',
      act: () => changeAsAdministrator('nodes/delete', { path: node.path, version: node.stat.version }),
    });
    if (gone) {
      const parent = parentPath(node.path);
      await this.#tree.renew(parent);
      visitNode(parent);
      announce(`Node ${visibleText(node.path)} was deleted.`);
    }
  }
}

function visitNode(path) {
  location.hash = pageAddress('nodes', path);
}

// encodeField encodes a text field with the line ends of the data: a text field turns every line end into \n, or
// into \r\n when it is sent.
const encodeField = (data, end = '\n') => toBase64(new TextEncoder().encode(data.get('data').replace(/\r?\n/g, end)));

// lineEnd returns the line end of a text, \n or \r\n, or null if it has both.
function lineEnd(text) {
  const rest = text.replaceAll('\r\n', '');
  const windows = rest.length < text.length;
  return rest.includes('\r') || windows && rest.includes('\n') ? null : windows ? '\r\n' : '\n';
}

function dataElements(node) {
  if (node.hidden && node.stat.data_length > 0) {
    const button = h('button', { type: 'button', onclick: () => signIn('To see the data, sign in.') }, 'Sign in to see the data');
    return [h('h3', {}, 'Data'), h('p', { class: 'sub' }, formatBytes(node.stat.data_length)), h('div', { class: 'buttons' }, button)];
  }
  const all = toBytes(node.data);
  if (all.length === 0) {
    return [h('h3', {}, 'Data'), h('p', { class: 'sub' }, 'none')];
  }
  const read = decodeText(all.slice(0, maxShownBytes), all.length > maxShownBytes);
  const size = node.stat.data_length;
  const rest = size > maxShownBytes ? `, of which the first ${formatBytes(maxShownBytes)} are shown` : '';
  return [h('h3', {}, 'Data'), h('p', { class: 'sub' }, `${formatBytes(size)}${read === null ? ', in hexadecimal' : ''}${rest}`),
    h('pre', { tabindex: '0', 'aria-label': 'Data' }, read === null ? hexDump(all, maxShownBytes) : visibleLines(read))];
}

// timeOfNode returns a time of a node. The root and the nodes that ZooKeeper has from the beginning have the time 0.
const timeOfNode = (at) => (Date.parse(at) === 0 ? 'with the ensemble' : `${formatTime(at)} (${timeSince(at)})`);

function statFacts(s) {
  return [
    ['Owner', s.owner ? h('button', { type: 'button', class: 'name', onclick: () => visitWindow('session', s.owner) }, s.owner) : 'none'],
    ['Children', formatCount(s.children)],
    ['Versions', `data ${s.version}, children ${s.cversion}, access ${s.aversion}`],
    ['Created', `${timeOfNode(s.ctime)}, zxid ${s.czxid}`],
    ['Changed', `${timeOfNode(s.mtime)}, zxid ${s.mzxid}`],
    ['Children changed', `zxid ${s.pzxid}`],
  ];
}

function aclElement(acl) {
  if (acl.length === 0) {
    return h('p', { class: 'sub' }, 'open to everybody');
  }
  return h('ul', { class: 'plain' }, acl.map((one) => h('li', {}, badge(one.perms || 'nothing'), ' ', h('span', { class: 'code' }, visibleText(`${one.scheme}:${one.id}`)))));
}
