package console

import (
	"fmt"
	"testing"
)

// A list without a reply of the member is unknown. The page never shows it as empty, and does not show that it is live.
func TestUnansweredLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ hash, path, list, none string }{
		{"#/sessions", "/v1/sessions", "#sessions", "No session"},
		{"#/ends", "/v1/ends", "#ends-list", "No session has ended"},
		{"#/slow", "/v1/slow", "#slow", "No request of the last hour"},
	} {
		t.Run(tt.list, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 10)
			f.set(func() { f.broken = tt.path })
			p := newTab(t, f.URL, tt.hash)
			p.excused = []string{refused(503)}
			p.shows(tt.list+" .note", "too many questions to answer")
			p.shows(tt.list+" .pager", "Not known")
			p.wait(`document.querySelector('#live').innerText === 'Live, except the list'`)
			if eval[bool](p, fmt.Sprintf(`document.querySelector(%q).innerText.includes(%q)`, tt.list, tt.none)) {
				t.Errorf("the page says %q:\n%s", tt.none, eval[string](p, `document.body.innerText`))
			}
			f.set(func() { f.broken = "" })
			p.wait(`document.querySelector('#live').innerText === 'Live'`)
			p.wait(fmt.Sprintf(`!document.querySelector(%q).innerText.includes('Not known')`, tt.list))
		})
	}
}

// A page whose stream has sent nothing yet does not say that the leader has never changed.
func TestLeadersBeforeTheStream(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	f.set(func() { f.broken = "/v1/events" })
	p := newTab(t, f.URL, "")
	p.excused = []string{refused(503)}
	p.shows("#alarm", "too many questions to answer")
	if eval[bool](p, `document.querySelector('#leaders').innerText.includes('has heard of no change')`) {
		t.Error("the page says that the leader has not changed")
	}
}

// A disk with little space left is the member's badge, and its window shows the free space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	f.set(func() { f.free = 10_171_187 })
	p := newTab(t, f.URL, "")
	p.wait(row("#ensemble", "member 2") + `?.innerText.includes('disk nearly full')`)
	p.click("#ensemble .name", "member 2")
	p.wait(fact("Free") + ` === '9.7 MiB'`)
	p.wait(`!` + row("#ensemble", "member 1") + `.innerText.includes('disk nearly full')`)
}
