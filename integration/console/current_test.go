package console

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"rollcall/lab/process"
)

// fact returns an expression for a fact of the window that is open, or of the node.
func fact(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('dialog .facts > div, #node .facts > div')].find((e) => e.firstChild.innerText === %q)?.lastChild.innerText`, name)
}

// The window of a session shows the current state. While the member does not reply, it shows the time of that state. It
// has an address, and closes when the page changes. When the session ends, the window shows the reason.
func TestSessionWindow(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	id := f.sessions[4].id
	p := newTab(t, f.URL, "#/overview?session="+id) // an address that somebody has sent
	p.excused = []string{refused(503), refused(404)}
	p.shows("dialog h2", "Session "+id)
	p.shows("h1", "Overview")
	p.wait(fact("Time left"))
	before := eval[string](p, fact("Time left"))
	p.wait(fact("Time left") + fmt.Sprintf(` !== %q`, before))

	f.set(func() { f.broken = "/v1/sessions/" })
	p.shows("dialog .note", "too many questions to answer")
	p.shows("dialog .note", "This is as of")
	f.set(func() { f.broken = "" })
	p.wait(`!document.querySelector('dialog .note').checkVisibility()`)

	p.press(kb.Escape)
	p.wait(`location.hash === '#/overview' && !document.querySelector('dialog')`)
	eval[string](p, fmt.Sprintf(`location.hash = '#/sessions?session=%s'`, id))
	p.shows("dialog button", "Kill…")
	p.click("dialog button", "Kill…")
	p.shows("dialog", "To kill a session, sign in.")
	eval[string](p, `location.hash = '#/nodes'`)
	p.wait(`!document.querySelector('dialog')`) // neither of the two
	p.shows("h1", "Nodes")

	eval[bool](p, `history.back() || true`)
	p.shows("dialog h2", "Session "+id)
	p.wait(fact("Time left"))
	f.set(func() { f.gone = 5 })
	p.wait(fact("State") + ` === 'ended'`)
	p.shows("dialog .facts", "an operator ended it")
	if eval[bool](p, `[...document.querySelectorAll('dialog button')].some((e) => e.checkVisibility() && e.innerText.includes('Kill'))`) {
		t.Error("a session that has ended can be killed")
	}
}

// Ends, removals and members have windows with addresses, too.
func TestWindowsOfEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/ends")
	p.click("#ends-list .name", "0x1a1f80663010001")
	p.shows("dialog .facts", "an operator ended it") // as the fake says of a session that is asked for
	p.wait(`location.hash === '#/ends?end=0x1a1f80663010001'`)
	p.do(chromedp.Reload())
	p.shows("dialog h2", "0x1a1f80663010001")
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	p.fill("#why-about", "10.0.0.4")
	p.press(kb.Enter)
	p.wait(`location.hash === '#/ends/10.0.0.4'`)
	p.do(chromedp.Reload())
	p.wait(`document.querySelector('#why-about').value === '10.0.0.4'`)
	eval[string](p, `location.hash = '#/overview?member=3'`)
	p.wait(fact("Version"))
	f.set(func() { f.silent = silentThird })
	p.wait(fact("Silent") + ` === 'down'`)
}

// The window of a member shows the free space of its disks and its limits, and marks the ones that are nearly used up.
func TestMemberWindowShowsLimits(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/overview?member=1")
	for name, want := range map[string]string{"Free": "9 GiB for data, 1 GiB for the log", "Data quota": "800 MiB of 900 MiB", "Memory": "1 GiB of 2 GiB"} {
		p.wait(fmt.Sprintf("%s === %q", fact(name), want))
	}
	marked := `[...document.querySelectorAll('dialog .facts .warn, dialog .facts .bad')].map((e) => e.parentElement.firstChild.innerText).join()`
	p.wait(marked + ` === 'Data quota'`)
	f.set(func() { f.full = true })
	p.wait(fact("Memory") + ` === '1 GiB of 2 GiB: it refuses writes that add data'`)
	p.wait(marked + ` === 'Data quota,Memory'`)
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	for member, want := range map[int]string{2: "9 GiB", 3: "not known"} {
		eval[string](p, fmt.Sprintf(`location.hash = '#/overview?member=%d'`, member))
		for name, want := range map[string]string{"Free": want, "Data quota": "no limit", "Memory": "no limit"} {
			p.wait(fmt.Sprintf("%s === %q", fact(name), want))
		}
	}
}

// A node and the tree show the current state, also if others change them. While the member does not reply, they show the
// time of that state. The stream may be live meanwhile.
func TestNodesStayCurrent(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/nodes/%2Fapp")
	p.excused = []string{refused(503)}
	p.wait(`document.querySelector('#node pre')?.textContent === 'text of /app'`)
	p.wait(item("/locks"))
	eval[bool](p, fmt.Sprintf(`%s.focus() || true`, item("/locks")))
	f.set(func() { f.text, f.names = ", changed", []string{"app", "fresh", "zookeeper"} })
	p.wait(`document.querySelector('#node pre')?.textContent === 'text of /app, changed'`)
	p.wait(item("/fresh") + " && !" + item("/locks"))
	p.wait(`document.activeElement.dataset.path === '/'`) // the parent of the node that had the focus
	if paths := eval[[]string](p, `[...document.querySelectorAll('#tree [role=treeitem]')].map((e) => e.dataset.path)`); !slices.Equal(paths, []string{"/", "/app", "/fresh", "/zookeeper"}) {
		t.Errorf("the tree has %q", paths)
	}
	f.set(func() { f.broken = "/v1/nodes" })
	p.shows("#node .note", "This node is as of")
	p.shows("#node pre", "changed")
	p.shows("#live", "Live")
	f.set(func() { f.broken, f.text = "", ", again" })
	p.wait(`document.querySelector('#node pre')?.textContent.endsWith('again') && !document.querySelector('#node .note').checkVisibility()`)
}

// The page sends a slow member one request at a time, and for a tenth of the time at most. When the user leaves the
// page, it cancels its requests.
func TestNodesOfSlowMember(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/overview")
	// The waits of the page pass 30 times as fast, and it waits for replies for ever.
	eval[bool](p, `(() => {
		const real = window.setTimeout;
		window.waits = [];
		window.setTimeout = (run, ms) => String(run).includes('again') ? (waits.push(ms), real(run, ms / 30)) : real(run, ms);
		AbortSignal.timeout = () => new AbortController().signal;
		return true;
	})()`)
	eval[string](p, `location.hash = '#/nodes/%2Fapp'`)
	p.wait(fmt.Sprintf(`%s && !(%s).hasAttribute('aria-expanded')`, item("/app"), item("/app"))) // the way to it is open

	const slow = 300 * time.Millisecond
	var begun, open, together atomic.Int32
	f.set(func() {
		f.hold = func(*http.Request) {
			begun.Add(1)
			if open.Add(1) > 1 {
				together.Add(1)
			}
			time.Sleep(slow)
			open.Add(-1)
		}
	})
	err := process.Until(t.Context(), "the page has asked for the node and the tree twice", func() bool { return begun.Load() >= 5 })
	if err != nil || together.Load() > 0 {
		t.Errorf("%v; %d questions while another one was open", err, together.Load())
	}
	if wait := time.Duration(eval[float64](p, `waits.at(-1)`)) * time.Millisecond; wait < 17*slow { // nine times both answers, rounded
		t.Errorf("the page waits %v after two answers that took %v each", wait, slow)
	}

	const room = 100 // more than the page asks
	asked, left := make(chan struct{}, room), make(chan struct{}, room)
	f.set(func() {
		f.hold = func(r *http.Request) {
			if r.URL.Query().Get("limit") != "1" { // about the tree
				asked <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}
			}
		}
	})
	<-asked
	eval[string](p, `location.hash = '#/overview'`)
	if err := process.Until(t.Context(), "the page has given up its question", func() bool { return len(left) > 0 }); err != nil {
		t.Error(err)
	}
}

// A page whose stream has no news is not live, and shows the time of its data. Lists that cannot be read again do the
// same. The result of a single query always shows its time.
func TestOldPages(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/sessions")
	p.excused = []string{refused(503), broken}
	p.shows("#live", "Live")
	p.wait(row("#sessions", f.sessions[0].id))
	f.set(func() { f.frozen, f.broken = true, "/v1/sessions" })
	p.shows("#sessions .note", "These rows are as of")
	p.wait(row("#sessions", f.sessions[0].id))
	p.shows("#live", "Not live, as of")
	f.set(func() { f.frozen, f.broken = false, "" })
	p.wait(`document.querySelector('#live').innerText === 'Live'`)
	p.wait(`!document.querySelector('#sessions .note').checkVisibility()`)

	f.set(func() { f.broken = "/v1/events" })
	f.CloseClientConnections()
	p.shows("#alarm", "What you see is as of")
	p.wait(`[...document.querySelectorAll('#alarm a')].map((a) => a.href).join() === 'http://10.0.0.1:8080/#/sessions'`) // member 2 serves the page
	p.shows("#alarm", "Member 3 only on its machine: ssh -L 8080:127.0.0.1:8080 zoo3")
}

// The list shows the number of sessions, and begins with the first ones in the order that the user chooses.
func TestSessionOrders(t *testing.T) {
	t.Parallel()
	f := newFake(t, 500)
	p := newTab(t, f.URL, "#/sessions")
	p.shows("#sessions .total", "500 sessions")
	p.click("#sessions th button", "Watches")
	p.shows("#sessions .pager", "the 100 with the most watches")
	p.wait(`document.querySelector('#sessions th[aria-sort=descending]').innerText.startsWith('Watches')`)
	p.wait(`[...document.querySelectorAll('#sessions tbody tr')].every((tr, i, all) => i === 0 || Number(tr.lastChild.innerText) <= Number(all[i - 1].lastChild.innerText))`)
	p.wait(`document.querySelector('#sessions [data-to=on]').disabled`)
	eval[bool](p, `(() => { const s = document.querySelector('#filter [name=sort]'); s.value = 'left'; return s.dispatchEvent(new Event('change', {bubbles: true})); })()`)
	p.shows("#sessions .pager", "the 100 with the least time left")
	p.wait(`document.querySelector('#sessions th[aria-sort=ascending]').innerText.startsWith('Time left')`)
	p.fill("#filter [name=text]", "10.0.0.7")
	p.press(kb.Enter)
	p.shows("#sessions .total", "1 of 500 sessions")
	p.click("#filter button", "Clear")
	p.shows("#sessions .pager", "sessions 1 to 100")
	p.shows("#sessions .total", "500 sessions")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, query := range f.asked {
		if query.Has("sort") && query.Has("from") {
			t.Errorf("asked for %v: an order has one page", query)
		}
	}
}
