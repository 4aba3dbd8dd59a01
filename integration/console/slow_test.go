package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"rollcall/client"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// The list shows a slow write of a client of another member, with its path and where its time went.
func testSlow(t *testing.T, e *ensemble) {
	c := e.session(t, e.Members[1], sessionTimeout)
	create(t, c, "/slow", strings.Repeat("data", 200_000), client.Ephemeral)
	p := newTab(t, e.console(e.Members[0]), "#/slow/"+idOf(c))
	p.wait(row("#slow", "/slow") + `?.innerText.includes('create')`)
	p.click("#slow .name", "")
	p.shows("dialog", "Stages")
	p.shows("dialog .times", "member")
	p.wait(fact("Member") + ` === 'member 2'`)
	p.wait(fact("Not known yet") + ` === undefined`)
	if text := eval[string](p, `document.body.innerText`); strings.Contains(text, "datadata") {
		t.Error("the page shows data of a node")
	}
}

// fakeSlowPart is the most rows that a fake sends at once.
const fakeSlowPart = 100

func (f *fake) listSlow(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	from, _ := strconv.Atoi(r.FormValue("from"))
	session, address := r.FormValue("session"), r.FormValue("address")
	if strings.HasPrefix(address, "my") {
		w.WriteHeader(http.StatusBadRequest)
		reply(w, api.Failure{Error: "must be an IP address"})
		return
	}
	want := view.NewClientFilter(address)
	rows := slices.DeleteFunc(slices.Clone(f.slow), func(s api.SlowRequest) bool {
		return session != "" && session != s.SessionID || !want.Matches(s.Address)
	})
	begin := min(from, len(rows))
	end := min(begin+limit, begin+fakeSlowPart, len(rows))
	a := api.List[api.SlowRequest]{Items: append([]api.SlowRequest{}, rows[begin:end]...), Silent: []api.Silence{}}
	if end < len(rows) {
		a.NextCursor = strconv.Itoa(end)
	}
	reply(w, a)
}

func (f *fake) oneSlow(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.slow, func(s api.SlowRequest) bool { return s.ID == r.PathValue("request") })
	if at < 0 {
		w.WriteHeader(http.StatusNotFound)
		reply(w, api.Failure{Error: "there is no such slow request"})
		return
	}
	reply(w, f.slow[at])
}

// newSlowFake starts a fake with slow requests of two sessions: one, and 150 of the other.
func newSlowFake(t *testing.T) *fake {
	f := newFake(t, 10)
	f.slow = append(f.slow, api.SlowRequest{
		ID: "2-19a3f0c2b41", MemberID: 2, ReceivedAt: time.Now().Add(-time.Minute), SessionID: f.sessions[1].id, Address: "[fd00::7]:4000", Op: "setData",
		Path: "/locks/\u202ea", TotalUs: 1_412_000, Lost: true, Largest: "the disk of member 1", MissingIDs: []uint32{1, 3}, ErrorUs: 700,
		Stages: []api.SlowStage{
			{Stage: "link", MemberID: 2, ToMemberID: 1, TookUs: 2_000, Text: "on the way from member 2 to the leader, member 1"},
			{Stage: "disk", MemberID: 1, TookUs: 1_410_000, Text: "the disk of member 1"},
		},
		Causes: []api.SlowCause{
			{Cause: "paused", MemberID: 3, TookUs: 90_000},
			{Cause: "no leader", MemberID: 2, TookUs: 80_000},
			{Cause: "snapshot", MemberID: 1, TookUs: 70_000},
			{Cause: "backup", MemberID: 1, TookUs: 60_000},
			{Cause: "slow sync", MemberID: 1, TookUs: 50_000},
			{Cause: "unknown", MemberID: 2, TookUs: 40_000},
			{Cause: "paused before", MemberID: 2, TookUs: 30_000},
		},
	})
	for i := range 150 {
		f.slow = append(f.slow, api.SlowRequest{
			ID: fmt.Sprintf("1-%x", 9000-i), MemberID: 1, ReceivedAt: time.Now().Add(-time.Hour), SessionID: f.sessions[2].id, Address: "10.0.0.2:5000", Op: "getData",
			TotalUs: 150_000, Largest: "the client did not take the reply", MissingIDs: []uint32{}, Causes: []api.SlowCause{}, Complete: true,
			Stages: []api.SlowStage{{Stage: "taken", MemberID: 1, TookUs: 150_000, Text: "the client did not take the reply"}},
		})
	}
	return f
}

// The list of slow requests is reached from the latency and from a session. It has pages, also of one session or address.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	f := newSlowFake(t)
	p := newTab(t, f.URL, "")
	p.click("#tiles a", "Slow requests")
	p.shows("h1", "Slow requests")
	for _, cell := range []string{f.sessions[1].id, "[fd00::7]:4000", "setData", `/locks/\u202ea`, "1.41 s", "1.41 s: the disk of member 1 (the other members are still being asked)"} {
		p.shows("#slow tbody tr:first-child td", cell)
	}
	p.shows("#slow .pager", "slow requests 1 to 100")
	p.click("#slow .pager button", "Next")
	p.shows("#slow .pager", "slow requests 101 to 151, the last")

	eval[string](p, fmt.Sprintf(`location.hash = '#/sessions?session=%s'`, f.sessions[2].id))
	p.click("dialog a", "those of the last hour")
	p.wait(fmt.Sprintf(`location.hash === '#/slow/%s' && !document.querySelector('dialog')`, f.sessions[2].id))
	p.shows("#slow .pager", "slow requests 1 to 100")
	p.shows("#slow tbody tr:first-child", "150 ms: the client did not take the reply")
	p.click("#slow .pager button", "Next")
	p.shows("#slow .pager", "slow requests 101 to 150, the last")
	for _, address := range []string{"fd00::7", "[fd00::7]", "[fd00::7]:4000"} {
		p.fill("#slow-about", f.sessions[2].id)
		p.press(kb.Enter)
		p.shows("#slow .pager", "slow requests 1 to 100")
		p.fill("#slow-about", address)
		p.press(kb.Enter)
		p.shows("#slow .pager", "slow requests 1 to 1, the last")
	}
	p.do(chromedp.Reload())
	p.shows("#slow .pager", "slow requests 1 to 1, the last")
	p.fill("#slow-about", "10.0.0.3")
	p.press(kb.Enter)
	p.shows("#slow .empty", "No slow request passes the filter. Pauses of members are in the list without one.")
	p.excused = []string{refused(400)}
	p.fill("#slow-about", "myhost")
	p.press(kb.Enter)
	p.shows("#slow .note", "must be an IP address")
	f.set(func() { f.slow = nil })
	p.click("#slow button", "Clear")
	p.shows("#slow .empty", "No request of the last hour took longer than its threshold, and no member was paused for as long.")
}

// The window of a slow request shows the output of `rollcall slow ID`. It becomes complete while it is open, and its
// path goes when the user may not see it any more.
func TestSlowRequestWindow(t *testing.T) {
	t.Parallel()
	f := newSlowFake(t)
	p := newTab(t, f.URL, "#/slow?slow=2-19a3f0c2b41")
	p.excused = []string{refused(404)}
	p.shows("dialog h2", "Slow request 2-19a3f0c2b41")
	for name, want := range map[string]string{
		"Member": "member 2", "Session": f.sessions[1].id, "Address": "[fd00::7]:4000", "Operation": "setData", "Path": `/locks/\\u202ea`, "Took": "1.41 s", "Reply": "none: the connection ended",
		"Missing": "what these members recorded: 1, 3", "Error": "a stage between two members may be wrong by 700 µs", "Not known yet": "the other members are still being asked",
	} {
		p.wait(fmt.Sprintf("%s === '%s'", fact(name), want))
	}
	lines := eval[[]string](p, `[...document.querySelectorAll('dialog .times li')].map((e) => [...e.children].map((part) => part.innerText).join(': '))`)
	if want := []string{
		"2 ms: on the way from member 2 to the leader, member 1", "1.41 s: the disk of member 1",
		"90 ms: the process of member 3 did not run", "80 ms: member 2 had no leader that serves", "70 ms: member 1 wrote a snapshot",
		"60 ms: member 1 wrote a backup", "50 ms: member 1 was in a slow sync of the log", "40 ms: something else on member 2",
		"30 ms: the process of member 2 had not run, and the request may have waited for that long",
	}; !slices.Equal(lines, want) {
		t.Errorf("stages and causes: %q", lines)
	}
	p.size(phoneWidth, phoneHeight)
	p.fits("a slow request")
	f.set(func() { f.slow[0].Complete, f.slow[0].Path, f.slow[0].Causes = true, "", []api.SlowCause{} })
	for _, name := range []string{"Not known yet", "Path"} {
		p.wait(fact(name) + ` === undefined`)
	}
	p.click("dialog .facts button", f.sessions[1].id)
	p.shows("dialog h2", "Session "+f.sessions[1].id)
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	p.fits("the list")
	eval[string](p, `location.hash = '#/slow?slow=2-1'`)
	p.shows("dialog .failure", "there is no such slow request")
}

// Terms after a recovery are shown as elections and recoveries.
func TestTermsAfterRecovery(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	f.terms = 2 << 16
	p := newTab(t, f.URL, "")
	p.wait(row("#ensemble", "member 1") + `?.innerText.includes('7+2 recoveries')`)
	p.wait(row("#leaders", "member 2") + `?.innerText.includes('7+2 recoveries')`)
	p.shows("#leaders-text", "in term 7+2 recoveries.")
	p.click("#ensemble .name", "member 1")
	p.wait(fact("Leader") + ` === 'member 2, term 7+2 recoveries'`)
	eval[string](p, `location.hash = '#/ends?end=0x1a1f80663010001'`)
	p.wait(fact("Leader") + ` === 'member 2, term 7+2 recoveries'`)
	eval[string](p, `location.hash = '#/overview'`)
	f.set(func() { f.terms = 1 << 16 })
	p.wait(row("#ensemble", "member 1") + `?.innerText.includes('7+recovery')`)
}
