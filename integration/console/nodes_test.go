package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"rollcall/client"
)

// item returns an expression for the item of the tree that stands for a node.
func item(path string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#tree [role=treeitem]')].find((e) => e.dataset.path === %q && e.checkVisibility())`, path)
}

// The tree is read with the keys of every tree, and shows stat and access. Only a user who has signed in sees data, and
// may create, set and delete. A node that another user has changed meanwhile is not overwritten.
func testNodes(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[0], sessionTimeout)
	create(t, c, "/tree", "root of it", client.Persistent)
	create(t, c, "/tree/a", "{\"a\": 1}", client.Persistent)
	create(t, c, "/tree/empty", "", client.Persistent)
	create(t, c, "/tree/b", "\x00\x01\xffbytes", client.Ephemeral)
	p := newTab(t, e.console(e.Members[0]), "#/nodes")
	p.wait(fact("Created") + `?.startsWith('with the ensemble, zxid ')`) // the root has the time 0
	p.excused = []string{refused(404), refused(409)}
	p.wait(item("/tree"))
	eval[bool](p, `document.querySelector('#tree [tabindex="0"]').focus() || true`)
	for range 20 {
		if eval[string](p, `document.activeElement.dataset.path`) == "/tree" {
			break
		}
		p.press(kb.ArrowDown)
	}
	p.press(kb.ArrowRight)
	p.wait(item("/tree/b"))
	p.press(kb.ArrowRight, kb.ArrowDown)
	p.wait(`document.activeElement.dataset.path === '/tree/b'`)
	p.press(kb.Enter)
	p.shows("#node h2", "/tree/b")
	p.shows("#node button", "Sign in to see the data")
	p.shows("#node", "8 B")
	p.shows("#node .facts", idOf(c))
	p.shows("#node", "world:anyone")
	p.shows("#node", "Sign in to change nodes.")
	p.press(kb.ArrowLeft)
	p.wait(`document.activeElement.dataset.path === '/tree'`)
	p.press(kb.ArrowLeft)
	p.wait("!" + item("/tree/a"))

	p.click("#node button", "Sign in to see the data")
	p.signIn()
	p.shows("#node pre", "00 01 ff 62 79 74 65 73")
	p.click("#sign", "Sign out")
	p.wait(`!document.querySelector('#node pre')`) // the data go with the credentials
	p.fill("#path-text", "/tree/empty")
	p.press(kb.Enter)
	p.shows("#node h2", "/tree/empty")
	p.shows("#node .sub", "none") // no data are hidden
	p.click("#sign", "Sign in")
	p.signIn()
	p.fill("#path-text", "/tree/none")
	p.press(kb.Enter)
	p.shows("#node .failure", "/tree/none")
	p.fill("#path-text", "/tree/a")
	p.press(kb.Enter)
	p.shows("#node pre", `{"a": 1}`)
	p.wait(item("/tree/a") + `.getAttribute('aria-selected') === 'true'`)

	p.change(t, "Set data…", "dialog textarea", "new text", "Set")
	p.shows("#node pre", "new text")
	p.click("#node button", "Set data…")
	p.fill("dialog textarea", "too late")
	if _, err := c.Set(t.Context(), "/tree/a", []byte("by a client"), -1); err != nil {
		t.Fatal(err)
	}
	p.click("dialog button", "Set")
	p.shows("dialog .failure", "version")
	p.press(kb.Escape)
	if _, err := c.Set(t.Context(), "/tree/a", []byte("by\r\na client"), -1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/tree/b", "/tree/a"} { // which reads the node anew
		p.fill("#path-text", path)
		p.press(kb.Enter)
		p.shows("#node h2", path)
	}
	p.shows("#node pre", "a client")
	p.click("#node button", "Set data…")
	p.click("dialog button", "Set") // without a change, the data stay as they are
	p.wait(`!document.querySelector('dialog')`)
	p.change(t, "Create a child…", "dialog [name=name]", "child", "Create")
	p.shows("#node h2", "/tree/a/child")
	p.wait(item("/tree/a/child"))
	p.click("#node button", "Delete…")
	p.click("dialog button", "Delete")
	p.shows("#node h2", "/tree/a")
	p.wait("!" + item("/tree/a/child"))
	if _, exists, err := c.Exists(t.Context(), "/tree/a/child"); err != nil || exists {
		t.Errorf("a node that was deleted is there: %t, %v", exists, err)
	}
	if data, _, err := c.Get(t.Context(), "/tree/a"); err != nil || string(data) != "by\r\na client" {
		t.Errorf("the node has %q, %v", data, err)
	}
}

// change fills in a field of a dialog that a button of the node opens, and sends it.
func (p *tab) change(t *testing.T, button, field, text, verb string) {
	t.Helper()
	p.click("#node button", button)
	p.fill(field, text)
	p.click("dialog button", verb)
	p.wait(`!document.querySelector('dialog')`)
}

// hostile are texts that would run, load or hide something if a browser took them for HTML, or for a part of
// an address.
var hostile = []string{
	`<script>window.harmed = 1</script>`,
	`<img src=x onerror="window.harmed = 1">`,
	`"><svg onload=window.harmed=1>`,
	`javascript:window.harmed=1`,
	`'-alert(1)-'`,
	`%3Cscript%3Ewindow.harmed=1%3C%2Fscript%3E`,
	`{{constructor.constructor('window.harmed=1')()}}`,
	"\u202egnp.exe",
	"\u200bzero\u00adwidth\u061c",
	`__proto__`,
	`../../v1/sessions?x=#y`,
}

// unseen writes out the invisible characters of hostile, as the console does.
var unseen = strings.NewReplacer("\u202e", `\u202e`, "\u200b", `\u200b`, "\u00ad", `\u00ad`, "\u061c", `\u061c`)

// Whatever clients choose is shown as the text that it is.
func testHostileStrings(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[0], sessionTimeout)
	create(t, c, "/hostile", "", client.Persistent)
	for i, text := range hostile {
		name := strings.ReplaceAll(text, "/", "⁄")
		create(t, c, "/hostile/"+name, "", client.Persistent)
		create(t, c, "/hostile/"+name+fmt.Sprint("/e", i), text, client.Ephemeral)
	}
	p := newTab(t, e.console(e.Members[0]), "#/nodes/%2Fhostile")
	p.excused = []string{refused(400)}
	p.click("#sign", "Sign in")
	p.signIn()
	for i, text := range hostile {
		path := "/hostile/" + strings.ReplaceAll(text, "/", "⁄")
		p.wait(item(path))
		eval[string](p, fmt.Sprintf(`location.hash = '#/nodes/' + encodeURIComponent(%q)`, path+fmt.Sprint("/e", i)))
		p.wait(fmt.Sprintf(`document.querySelector('#node pre')?.textContent === %q`, unseen.Replace(text)))
		p.wait(item(path + fmt.Sprint("/e", i)))
	}
	for _, written := range []string{`\u202egnp.exe`, `\u200bzero\u00adwidth\u061c`} {
		p.shows("#tree", written) // no name turns around, or looks like another
	}
	create(t, c, "/hostile/lines", "one\r\n\ttwo\u2066\U000e0041\n", client.Ephemeral)
	eval[string](p, `location.hash = '#/nodes/%2Fhostile%2Flines'`)
	p.wait(`document.querySelector('#node pre')?.textContent === 'one\r\n\ttwo\\u2066\\u{e0041}\n'`)
	p.click("#node button", "Set data…")
	p.shows("dialog .note", "characters that nobody sees")
	p.press(kb.Escape)
	p.click("#sign", "Sign out")
	p.click("nav a", "Sessions")
	p.fill("#owner-path", "/hostile/"+strings.ReplaceAll(hostile[0], "/", "⁄")+"/e0")
	p.press(kb.Enter)
	p.shows("#owner-answer", idOf(c))
	p.fill("#owner-path", `<img src=x onerror="window.harmed = 1">`)
	p.press(kb.Enter)
	p.shows("#owner-answer", "<img src=x")
	p.click("#sessions .name", idOf(c))
	p.shows("dialog .paths", "<script>")
	if found := eval[[]string](p, `[...document.querySelectorAll('script, img, svg, iframe, [onerror], [onload]')].filter((e) => !e.closest('head, .brand, .tile')).map((e) => e.outerHTML)`); len(found) > 0 {
		t.Errorf("the page has %q", found)
	}
	if eval[bool](p, `'harmed' in window`) {
		t.Error("a text has run")
	}
	p.press(kb.Escape)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.click("nav a", "Ends")
	p.fill("#why-about", "/hostile/"+strings.ReplaceAll(hostile[1], "/", "⁄")+"/e1")
	p.press(kb.Enter)
	p.click("#removals-list .name", "<img src=x")
	p.shows("dialog h2", "<img src=x")
	if eval[bool](p, `'harmed' in window || document.querySelector('dialog img') !== null`) {
		t.Error("a text has run")
	}
}
