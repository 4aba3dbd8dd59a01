package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"rollcall/client"
	"rollcall/lab/process"
)

const sessionTimeout = 10 * time.Second

// TestConsole drives one ensemble. The cases that end members come last.
func TestConsole(t *testing.T) {
	e := startEnsemble(t)
	for _, one := range []struct {
		name string
		test func(*testing.T, *ensemble)
	}{
		{"Overview", testOverview},
		{"Axis", testAxis},
		{"Sessions", testSessions},
		{"Kill", testKill},
		{"Removals", testRemovals},
		{"Slow", testSlow},
		{"Nodes", testNodes},
		{"HostileStrings", testHostileStrings},
		{"Keyboard", testKeyboard},
		{"Phone", testPhone},
		{"Colours", testColours},
		{"MemberStops", testMemberStops},
		{"NoLeader", testNoLeader},
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, e) })
	}
}

// Every member serves the page, which shows the members and their roles, live.
func testOverview(t *testing.T, e *ensemble) {
	for _, m := range e.Members {
		p := newTab(t, e.console(m), "")
		p.shows("#live", "Live")
		p.shows("#where", fmt.Sprintf("member %d, %s", m.ID, m.Mode()))
		for _, other := range e.Members {
			p.wait(row("#ensemble", fmt.Sprintf("member %d", other.ID)) + fmt.Sprintf(`?.innerText.includes(%q)`, other.Mode()))
		}
		if m != e.Members[0] {
			continue
		}
		p.wait(`document.title === 'Overview · member 1 · Rollcall'`)
		before := eval[string](p, `document.querySelector('#tiles svg .line').getAttribute('d')`)
		p.wait(fmt.Sprintf(`document.querySelector('#tiles svg .line').getAttribute('d') !== %q`, before))
		p.click("#ensemble .name", "member 2")
		p.shows("dialog", "Committed")
		p.wait(`location.hash === '#/overview?member=2'`)
		p.wait(fmt.Sprintf(`document.querySelector('dialog .facts a').href === %q`, e.console(e.Members[1])+"/#/overview?member=2"))
		p.press(kb.Escape)
		p.wait(`!document.querySelector('dialog') && location.hash === '#/overview'`)
	}
}

// bars is an expression for where the bars are drawn, in the middle: pixels from the left, or 0 if there are none.
const bars = `(() => {
	const canvas = document.querySelector('#axis-plot canvas');
	const {data, width} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
	const colour = getComputedStyle(canvas).getPropertyValue('--far').trim().match(/[0-9a-f]{2}/g).map((h) => parseInt(h, 16));
	let sum = 0, n = 0;
	for (let i = 0; i < data.length; i += 4) {
		if (colour.every((c, at) => Math.abs(data[i + at] - c) < 8)) { sum += (i / 4) % width; n++; }
	}
	return n > 200 ? sum / n : 0;
})()`

// The bars are drawn, have as many sessions as there are, and move. The words, the table and the keys say the
// same.
func testAxis(t *testing.T, e *ensemble) {
	for range 3 {
		e.session(t, e.Members[0], sessionTimeout)
	}
	p := newTab(t, e.console(e.Members[1]), "")
	p.shows("#axis-text", "3 sessions in buckets of 1 s")
	p.excused = []string{"log: rendering: Canvas2D: Multiple readback operations"} // the test reads the picture
	p.wait(bars + ` > 0`)
	least, most, passed, heard := deskWidth+0.0, 0.0, false, false
	err := process.Until(t.Context(), "the bars move left as time passes, and right when sessions are heard", func() bool {
		at := eval[float64](p, bars)
		passed, heard = passed || at < most-20, heard || at > least+20
		least, most = min(least, at), max(most, at)
		return passed && heard
	})
	if err != nil {
		t.Errorf("%v: between %v and %v", err, least, most)
	}
	p.wait(`/[1-9]\d* sessions? moved/.test(document.querySelector('#axis-text').innerText)`)

	eval[bool](p, `document.querySelector('#axis-plot').focus() || true`)
	p.press(kb.ArrowRight)
	p.shows("#axis-plot .tip", "due in")
	p.wait(`document.querySelector('#axis-plot').getAttribute('aria-valuetext').includes('session')`)
	p.press(kb.Escape)
	p.wait(`document.querySelector('#axis-plot .tip').hidden`)

	p.click("#axis-table summary", "")
	p.wait(`[...document.querySelectorAll('#axis-table tbody td.number')].reduce((sum, td) => sum + Number(td.innerText), 0) === 3`)

	p.media("prefers-reduced-motion", "reduce")
	p.shows("#axis-text", "3 sessions")
}

// The table shows the sessions, and the filter chooses among them. The owner of a node is found.
func testSessions(t *testing.T, e *ensemble) {
	var all []*client.Client
	for i, m := range e.Members {
		c := e.session(t, m, sessionTimeout)
		create(t, c, fmt.Sprintf("/lock-%d", i+1), "", client.Ephemeral)
		all = append(all, c)
	}
	p := newTab(t, e.console(e.Members[0]), "#/sessions")
	p.excused = []string{refused(400)}
	for i, c := range all {
		id := idOf(c)
		p.wait(row("#sessions", id) + `?.innerText.includes('connected')`)
		p.wait(row("#sessions", id) + fmt.Sprintf(`?.children[2].innerText === '%d'`, i+1))
		p.shows("#sessions .total", " sessions")
	}
	eval[bool](p, `(() => { const s = document.querySelector('#filter [name=member]'); s.value = '2'; return s.dispatchEvent(new Event('change', {bubbles: true})); })()`)
	p.wait("!" + row("#sessions", idOf(all[0])) + "&& " + row("#sessions", idOf(all[1])))
	p.click("#filter button", "Clear")
	p.wait(row("#sessions", idOf(all[0])))
	create(t, all[1], "/lock-more", "", client.Ephemeral)
	p.click("#sessions th button", "Ephemerals")
	p.wait(fmt.Sprintf(`document.querySelector('#sessions tbody tr').innerText.includes(%q)`, idOf(all[1]))) // the member sorts
	p.click("#filter button", "Clear")
	p.fill("#filter [name=text]", idOf(all[2]))
	p.press(kb.Enter)
	p.wait("!" + row("#sessions", idOf(all[0])) + "&& " + row("#sessions", idOf(all[2])))
	p.fill("#filter [name=text]", "no address")
	p.press(kb.Enter)
	p.shows("#sessions .note", "must be an IP address")
	p.fill("#filter [name=text]", "10.9.8.7")
	p.press(kb.Enter)
	p.shows("#sessions .empty", "No session passes the filter.")

	p.fill("#owner-path", "/lock-2")
	p.press(kb.Enter)
	p.shows("#owner-answer", idOf(all[1]))
	p.click("#owner-answer button", "")
	p.shows("dialog", "Ephemeral nodes")
	p.shows("dialog .paths", "/lock-2")
	p.press(kb.Escape)
	p.fill("#owner-path", "/zookeeper")
	p.press(kb.Enter)
	p.shows("#owner-answer", "Nobody: the node is persistent.")
}

// signIn signs in, first with a password that is wrong.
func (p *tab) signIn() {
	p.t.Helper()
	for _, try := range []struct{ password, want string }{{"Secret", "The member does not accept this."}, {"secret", ""}} {
		p.fill("dialog [name=secret]", try.password)
		p.press(kb.Enter)
		if try.want != "" {
			p.shows("dialog .failure", try.want)
		}
	}
	p.shows("#sign", "Sign out")
}

// A session is killed by a user who has signed in and is sure. Its client hears of it, and the ends say why.
// The credentials are gone after the user has signed out.
func testKill(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[2], sessionTimeout)
	create(t, c, "/killed", "", client.Ephemeral)
	id := idOf(c)
	p := newTab(t, e.console(e.Members[1]), "#/sessions")
	p.excused = []string{refused(404)} // the window asks for a session that is gone
	p.click("#sessions .name", id)
	p.click("dialog button", "Kill…")
	p.shows("dialog", "To kill a session, sign in.")
	p.signIn()
	p.shows("dialog", "1 ephemeral node will be removed.")
	p.click("dialog button", "Cancel")
	p.wait(`document.querySelectorAll('dialog').length === 1`)
	if _, exists, err := c.Exists(t.Context(), "/killed"); err != nil || !exists {
		t.Fatalf("the session after a kill that was given up: its node is there: %t, %v", exists, err)
	}
	p.click("dialog button", "Kill…")
	p.shows("dialog", "Kill session "+id)
	p.press(kb.Tab, kb.Enter) // the button that gives up has the focus
	p.wait(`document.querySelectorAll('dialog').length === 1`)
	p.wait(fact("State") + ` === 'ended'`) // the session's window says what became of it
	p.shows("dialog .facts", "an operator ended it")
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	err := process.Until(t.Context(), "the session is over for its client", func() bool {
		_, _, err := c.Exists(t.Context(), "/killed")
		return errors.Is(err, client.ErrExpired)
	})
	if err != nil {
		t.Error(err)
	}
	p.wait("!" + row("#sessions", id))
	p.click("nav a", "Ends")
	p.wait(row("#ends", id) + `?.innerText.includes('killed')`)
	p.wait(row("#ends", id) + `?.innerText.includes('super from 127.0.0.1')`)
	p.click("nav a", "Overview")
	p.wait(row("#latest", id) + `?.innerText.includes('killed')`)

	stored := `JSON.stringify([sessionStorage, localStorage, document.cookie]).includes('secret')`
	if !eval[bool](p, stored) {
		t.Error("the tab does not remember the password, so this test does not see it go")
	}
	p.click("#sign", "Sign out")
	p.shows("#sign", "Sign in")
	if eval[bool](p, stored) {
		t.Error("the password is still there after the user has signed out")
	}
}

// The tab of ends shows the removal of a node, and the end of a session of an address.
func testRemovals(t *testing.T, e *ensemble) {
	before, c := e.session(t, e.Members[0], sessionTimeout), e.session(t, e.Members[0], sessionTimeout)
	create(t, c, "/gone", "", client.Ephemeral)
	create(t, c, "/gone-too", "", client.Ephemeral)
	id := idOf(c)
	p := newTab(t, e.console(e.Members[0]), "")
	p.excused = []string{refused(400)}
	p.shows("#live", "Live")
	if err := before.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.wait(row("#latest", idOf(before))) // the page has asked, as it does when it begins
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.wait(row("#latest", id) + `?.innerText.includes('closed')`) // without being asked
	p.click("nav a", "Ends")
	p.fill("#why-about", "/gone")
	p.press(kb.Enter)
	p.click("#removals-list .name", "/gone")
	if n := eval[int](p, `document.querySelectorAll('#removals-list tbody tr').length`); n != 1 {
		t.Errorf("%d removals of one node", n)
	}
	p.shows("dialog", "its session ended")
	p.shows("dialog", "closed: its client closed it.")
	p.press(kb.Escape)
	p.fill("#why-about", strings.ToUpper(id[2:]))
	p.press(kb.Enter)
	p.shows("#ends-list .note", "must be an IP address")
	p.fill("#why-about", id)
	p.press(kb.Enter)
	p.wait(row("#ends-list", id) + `?.innerText.includes('closed')`)
	if n := eval[int](p, `document.querySelectorAll('#ends-list tbody tr').length`); n != 1 {
		t.Errorf("%d ends of one session", n)
	}
}
