package console

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"rollcall/lab/process"
)

// mostElements is the largest number of elements of the page at any time, however many sessions there are. A page of a
// table has 100 rows.
const mostElements = 4000

// With 100,000 sessions the page shows one page of them, and moves on and back by the member's cursors. The axis has all
// of them in a few bars.
func TestManySessions(t *testing.T) {
	f := newFake(t, 100_000)
	f.exposed = "members are not authenticated"
	p := newTab(t, f.URL, "")
	p.shows("#axis-text", "100,000 sessions in buckets of 1 s")
	p.shows("#tiles", "100,000")
	p.shows("#ensemble .rows", "members are not authenticated")
	p.click("nav a", "Sessions")
	p.shows("#sessions .pager", "sessions 1 to 100")
	p.click("#sessions .pager button", "Next")
	p.shows("#sessions .pager", "sessions 101 to 200")
	p.shows("#sessions tbody", f.sessions[100].id)
	if n := eval[int](p, `document.querySelectorAll('#sessions tbody tr').length`); n != 100 {
		t.Errorf("%d rows, want 100", n)
	}
	if n := eval[int](p, `document.querySelectorAll('*').length`); n > mostElements {
		t.Errorf("%d elements, want at most %d", n, mostElements)
	}
	p.click("#sessions .pager button", "Back")
	p.shows("#sessions .pager", "sessions 1 to 100")
	p.fill("#filter [name=text]", f.sessions[99_999].id)
	p.press(kb.Enter)
	p.shows("#sessions .pager", "sessions 1 to 1, the last")
	p.shows("#sessions tbody", f.sessions[99_999].id)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, query := range f.asked {
		if limit, _ := strconv.Atoi(query.Get("limit")); limit != 100 {
			t.Errorf("asked for %v", query)
		}
	}
}

// From another machine the page loads without data, and requests credentials: once, unless the user repeats that.
func TestCredentialsFromElsewhere(t *testing.T) {
	f := newFake(t, 10)
	f.secret = "Bearer pässword"
	p := newTab(t, f.URL, "")
	p.excused = []string{refused(401), broken}
	p.shows("dialog", "The member asks for credentials.")
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	p.shows("#alarm", "from another machine this needs credentials")
	if text := eval[string](p, `document.querySelector('main').innerText`); strings.Contains(text, "member 2") {
		t.Errorf("without credentials the page shows %q", text)
	}
	before := f.asks()
	err := process.Until(t.Context(), "the page has tried again twice", func() bool { return f.asks() >= before+2 })
	if err != nil {
		t.Fatal(err)
	}
	if eval[bool](p, `!!document.querySelector('dialog')`) {
		t.Error("the page asks again")
	}
	p.click("#sign", "Sign in")
	p.click("dialog label", "Token")
	p.fill("dialog [name=secret]", "pässword")
	p.press(kb.Enter)
	p.shows("#live", "Live")
	p.wait(row("#ensemble", "member 2"))

	f.mu.Lock()
	f.secret = "Bearer another"
	f.mu.Unlock()
	f.CloseClientConnections()
	p.shows("dialog", "The member asks for credentials.")
	p.shows("#sign", "Sign in")
}

// asks returns the number of requests for the events.
func (f *fake) asks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}
