package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"rollcall/client"
)

// tabs are the addresses of the page's tabs.
var tabs = []string{"#/overview", "#/sessions", "#/ends", "#/slow", "#/nodes"}

// Everything is reached without a mouse: past the head by the link that skips it, from tab to tab, from row to
// row, into a dialog and out of it, where the focus goes back to the row.
func testKeyboard(t *testing.T, e *ensemble) {
	first, second := e.session(t, e.Members[0], sessionTimeout), e.session(t, e.Members[0], sessionTimeout)
	p := newTab(t, e.console(e.Members[0]), "")
	p.shows("#live", "Live")
	focus := func(want string) {
		t.Helper()
		p.wait(fmt.Sprintf(`(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText).includes(%q)`, want))
	}
	// What has the focus is marked.
	marked := func() {
		t.Helper()
		p.wait(`getComputedStyle(document.activeElement).outlineStyle !== 'none' && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`)
	}
	p.press(kb.Tab)
	focus("Skip to the content")
	marked()
	p.wait(`document.activeElement.getBoundingClientRect().top >= 0`)
	p.press(kb.Enter)
	p.wait(`document.activeElement.id === 'main' || document.querySelector('#main').contains(document.activeElement)`)
	p.press(kb.Tab)
	p.wait(`document.querySelector('#main').contains(document.activeElement)`)

	p.do(chromedp.Navigate(p.base + "/"))
	p.shows("#live", "Live")
	for _, want := range []string{"Skip", "Rollcall", "Colours", "Sign in", "Overview", "Sessions"} {
		p.press(kb.Tab)
		focus(want)
		marked()
	}
	p.press(kb.Enter)
	p.shows("h1", "Sessions")
	focus("Sessions") // the heading, so that a screen reader says where it is
	p.wait(row("#sessions", idOf(first)) + "&&" + row("#sessions", idOf(second)))
	for range 20 {
		if p.press(kb.Tab); eval[bool](p, `document.activeElement.matches('#sessions .name')`) {
			break
		}
		marked()
	}
	rows := eval[[]string](p, `[...document.querySelectorAll('#sessions .name')].map((e) => e.innerText)`)
	focus(rows[0])
	p.press(kb.ArrowDown)
	focus(rows[1])
	p.press(kb.End)
	focus(rows[len(rows)-1])
	p.press(kb.Home)
	focus(rows[0])
	marked()
	p.press(kb.Enter)
	p.shows("dialog", "Session "+rows[0])
	p.wait(`document.querySelector('dialog').contains(document.activeElement)`)
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	focus(rows[0])
	p.press(kb.Tab) // one stop for the whole table
	p.wait(`!document.activeElement.matches('#sessions .name')`)
}

// On a phone no tab and no dialog is wider than the screen, and what is touched is large enough.
func testPhone(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[0], sessionTimeout)
	create(t, c, "/"+strings.Repeat("long", 60), strings.Repeat("data", 100), client.Ephemeral)
	p := newTab(t, e.console(e.Members[0]), "")
	p.size(phoneWidth, phoneHeight)
	for _, path := range tabs {
		eval[string](p, fmt.Sprintf(`location.hash = %q`, path))
		p.wait(fmt.Sprintf(`!document.getElementById(%q).hidden`, path[2:]))
		switch path {
		case "#/sessions":
			p.wait(row("#sessions", idOf(c)))
			p.fits(path)
			p.click("#sessions .name", idOf(c))
			p.shows("dialog .paths", "longlong")
			p.fits("a session")
			p.press(kb.Escape)
			p.wait(`!document.querySelector('dialog')`)
			p.click("#sign", "Sign in")
			p.shows("dialog", "Password of super") // this ensemble has no token
			p.fits("the sign-in")
			p.press(kb.Escape)
			p.wait(`!document.querySelector('dialog')`)
		case "#/nodes":
			p.wait(item("/zookeeper"))
		case "#/overview":
			p.wait(row("#ensemble", "member 3"))
		}
		p.fits(path)
	}
}

// fits fails the test if something is wider than a phone's screen, or too small to touch.
func (p *tab) fits(what string) {
	p.t.Helper()
	if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > phoneWidth {
		p.t.Errorf("%s is %d pixels wide", what, wide)
	}
	small := `[...document.querySelectorAll('a[href], button, select, input, summary, [role=treeitem] > .label, [aria-expanded] > .label > .turn')].filter((e) => {
		const box = e.getBoundingClientRect();
		return e.checkVisibility() && (box.height < 24 || box.width < 24);
	}).map((e) => e.outerHTML)`
	if found := eval[[]string](p, small); len(found) > 0 {
		p.t.Errorf("%s: too small to touch: %q", what, found)
	}
}

// The colours are the system's, or those that the user has chosen, also after the page was loaded again. All
// text can be read on its background.
func testColours(t *testing.T, e *ensemble) {
	e.session(t, e.Members[0], sessionTimeout)
	p := newTab(t, e.console(e.Members[0]), "")
	p.media("prefers-color-scheme", "light")
	dark := func(want bool) {
		t.Helper()
		p.wait(fmt.Sprintf(`(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 80) === %t`, want))
	}
	dark(false)
	p.readable("light")
	p.media("prefers-color-scheme", "dark")
	dark(true)
	p.readable("dark")
	p.click("#theme", "")
	dark(false) // chosen: light
	p.do(chromedp.Reload())
	dark(false)
	p.click("#theme", "")
	p.media("prefers-color-scheme", "light")
	dark(true) // chosen: dark
	p.click("#theme", "")
	dark(false) // as the system
}

// leastContrast is the contrast that WCAG 2 demands of text.
const leastContrast = 4.5

// readable fails the test if a text of a tab has too little contrast.
func (p *tab) readable(colours string) {
	p.t.Helper()
	for _, path := range tabs {
		eval[string](p, fmt.Sprintf(`location.hash = %q`, path))
		p.wait(fmt.Sprintf(`!document.getElementById(%q).hidden`, path[2:]))
		if path == "#/sessions" {
			p.wait(`document.querySelector('#sessions .name')`)
		}
		for _, faint := range eval[[]string](p, fmt.Sprintf(contrast, leastContrast)) {
			p.t.Errorf("%s, %s: %s", colours, path, faint)
		}
	}
	eval[string](p, `location.hash = '#/overview'`)
}

// contrast returns the texts whose contrast with what is behind them is less than a number. Controls that are
// disabled need none.
const contrast = `(() => {
	const rgb = (text) => text.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const found = new Set();
	for (const e of document.querySelectorAll('body *')) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '');
		if (!own || !e.checkVisibility() || e.disabled || e.closest('.unseen, noscript, [aria-busy]')) continue;
		const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < %v) found.add(ratio.toFixed(2) + ': ' + e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40));
	}
	return [...found];
})()`

// When its member stops, the page says so, keeps what it knows, and is live again when the member is back.
func testMemberStops(t *testing.T, e *ensemble) {
	m := e.Members[0]
	addr, err := m.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, addr)
	c := e.session(t, e.Members[1], sessionTimeout)
	p := newTab(t, r.base(), "")
	p.excused = []string{broken}
	p.shows("#live", "Live")
	p.wait(row("#ensemble", "member 3"))
	m.Process.Kill()
	r.lead("")
	p.shows("#alarm", "Trying again.")
	p.shows("#live", "Not live")
	p.shows("#alarm button", "Try now (")
	p.shows("#alarm", "What you see is as of")
	for _, other := range e.Members[1:] {
		p.wait(fmt.Sprintf(`[...document.querySelectorAll('#alarm a')].some((a) => a.innerText === 'Member %d' && a.href === %q)`, other.ID, e.console(other)+"/"))
	}
	p.wait(`document.querySelectorAll('#alarm a').length === 2`) // none to the member that is down
	p.wait(row("#ensemble", "member 3"))                         // what it knew
	p.click("nav a", "Sessions")
	p.shows("#sessions .note", "The member does not answer.")

	e.Start(m)
	e.Settle()
	if addr, err = m.HTTP(); err != nil {
		t.Fatal(err)
	}
	r.lead(addr)
	p.click("#alarm button", "Try now")
	p.shows("#live", "Live")
	p.wait(`document.querySelector('#alarm').hidden`)
	p.wait(row("#sessions", idOf(c)))
}

// A member that is alone, without a leader, shows itself, the silent members with the reason, and the sessions. The axis
// shows the reason for which it is empty.
func testNoLeader(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[2], 30*time.Second)
	create(t, c, "/lonely", "", client.Ephemeral)
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, e.console(e.Members[2]), "")
	p.shows("#live", "Live")
	p.wait(`document.querySelector('#leaders tbody tr')`)
	term := eval[int](p, `Number(document.querySelector('#leaders tbody tr').children[2].innerText)`)
	for _, m := range e.Members[:2] {
		m.Process.Kill()
	}
	p.wait(row("#ensemble", "member 1") + `?.innerText.includes('down')`)
	p.wait(row("#ensemble", "member 3") + `?.innerText.includes('no leader')`)
	p.shows("#axis-text", "Nobody can say when sessions fall due, because no leader answers")
	p.click("nav a", "Sessions")
	p.wait(row("#sessions", idOf(c)))
	for _, m := range e.Members[:2] {
		e.Start(m)
	}
	e.Settle()
	p.click("nav a", "Overview")
	p.wait(row("#ensemble", "member 1") + `?.innerText.match(/leader|follower/)`)
	p.shows("#axis-text", "which leads")
	leads := fmt.Sprintf(`Number(document.querySelector('#leaders tbody tr')?.children[2].innerText) > %d && document.querySelector('#leaders-text').innerText.includes(' has led since ')`, term)
	p.wait(leads)
	p.do(chromedp.Reload())
	p.wait(leads) // the member remembers it
}
