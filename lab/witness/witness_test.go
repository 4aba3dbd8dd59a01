package witness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/lab/target"
	"rollcall/operator/api"
)

// fake is a member that replies over HTTP from these fields.
type fake struct {
	id      uint32
	digest  string
	applied []uint64 // in the answers to status, in turn; the last one stays
	ends    []api.End
	live    []string
	leaders []api.LeaderEvent
	broken  string // the path that is answered with an error
	token   string // that it was sent
}

const committed = 40

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.token = r.Header.Get("Authorization")
	var reply any
	switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); path {
	case f.broken:
		http.Error(w, `{"error":"it is broken"}`, http.StatusServiceUnavailable)
		return
	case "whoami":
		reply = api.Caller{MemberID: f.id}
	case "status":
		applied := f.applied[0]
		f.applied = f.applied[min(1, len(f.applied)-1):]
		reply = api.List[api.Member]{Items: []api.Member{
			{MemberID: f.id, AppliedIndex: applied, CommittedIndex: applied, DigestVerdict: f.digest, DigestIndex: 32},
			{MemberID: 9, AppliedIndex: committed, CommittedIndex: committed, DigestVerdict: "agrees"},
		}}
	case "ends":
		reply = f.page(r.URL.Query().Get("from"), r.URL.Query().Get("limit"))
	case "sessions":
		var list api.List[api.Session]
		for _, id := range f.live {
			list.Items = append(list.Items, api.Session{ID: id})
		}
		reply = list
	case "events":
		fmt.Fprint(w, "retry: 1000\n\n")
		for _, e := range f.leaders {
			text, _ := json.Marshal(e) // it always encodes
			fmt.Fprintf(w, "event: leader\ndata: %s\n\n", text)
		}
		fmt.Fprint(w, "event: status\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// page returns two ends, newest first, or one for the limit 1.
func (f *fake) page(from, limit string) (page api.List[api.End]) {
	ends := slices.Clone(f.ends)
	slices.Reverse(ends)
	n, rows := 0, 2
	_, _ = fmt.Sscanf(from, "%d", &n)
	if limit == "1" {
		rows = 1
	}
	ends = ends[n:]
	if len(ends) > rows {
		page.NextCursor = fmt.Sprint(n + rows)
		ends = ends[:rows]
	}
	page.Items = ends
	return page
}

func endOf(number uint64, session string) api.End {
	return api.End{
		Number: number, ID: session, Reason: "expired", Zxid: fmt.Sprintf("0x%x", 0x200000000+number), LeaderID: 1, Term: 2,
		SilentMs: 4100, TimeoutMs: 4000, EndedAt: time.UnixMilli(1),
	}
}

// three returns three members that know the same, and what is to be said of them.
func three(t *testing.T) ([]*fake, []target.Member) {
	t.Helper()
	var fakes []*fake
	var members []target.Member
	for id := range uint32(3) {
		f := &fake{
			id: id + 1, digest: "agrees", applied: []uint64{committed}, live: []string{"0x8"},
			ends:    []api.End{endOf(1, "0x1"), endOf(2, "0x2"), endOf(3, "0x3"), endOf(4, "0x4")},
			leaders: []api.LeaderEvent{{LeaderID: 1, Term: 2}},
		}
		srv := httptest.NewServer(f)
		t.Cleanup(srv.Close)
		fakes = append(fakes, f)
		members = append(members, target.Member{Name: fmt.Sprint(id + 1), Admin: srv.URL, Token: "secret"})
	}
	return fakes, members
}

// broken returns the rules that fail by what the members say.
func broken(t *testing.T, members []target.Member, mark uint64) (rules []string) {
	t.Helper()
	e := &judge.Evidence{End: 9000, Testimonies: Gather(t.Context(), members, mark), Sessions: []judge.Session{
		{ID: "0x3", Timeout: 4000, Ended: judge.Expired, EndedAt: 8000}, {ID: "0x4", Timeout: 4000, Ended: judge.Closed, EndedAt: 8000},
	}}
	for _, m := range e.Testimonies {
		if m.Silent != "" {
			t.Errorf("member %s is silent: %s", m.Member, m.Silent)
		}
	}
	for _, v := range judge.Judge(e, judge.Limits{}) {
		if v.Outcome == result.Fail {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

// A member that says something else than the others, or than clients know, breaks the rule that is about it.
func TestTamperedMember(t *testing.T) {
	for want, tamper := range map[string]func(f *fake){
		"":             func(*fake) {},
		"one-leader":   func(f *fake) { f.leaders[0].LeaderID = 2 },
		"states-equal": func(f *fake) { f.digest = "differs" },
		"ends-kept":    func(f *fake) { f.live = append(f.live, "0x3") },
	} {
		fakes, members := three(t)
		tamper(fakes[1])
		if got := strings.Join(broken(t, members, 2), ", "); got != want {
			t.Errorf("%q fail, want %q", got, want)
		}
	}
	fakes, members := three(t)
	fakes[2].ends[3].SilentMs = 5000
	if got := broken(t, members, 2); !slices.Equal(got, []string{"states-equal"}) {
		t.Errorf("an end differs: %q fail", got)
	}
	for _, f := range fakes {
		f.ends = f.ends[:3]
	}
	if got := broken(t, members, 2); !slices.Equal(got, []string{"ends-in-log"}) {
		t.Errorf("an end is missing everywhere: %q fail", got)
	}
}

// The request is for ends after the mark alone, page by page, with the token. A member that has dropped some reports
// their number.
func TestGather(t *testing.T) {
	fakes, members := three(t)
	if mark := Mark(t.Context(), members); mark != 4 {
		t.Errorf("mark %d, want 4", mark)
	}
	fakes[1].ends = fakes[1].ends[2:]
	fakes[2].broken = "ends"
	members = append(members, target.Member{Name: "4"})
	all := Gather(t.Context(), members, 0)
	if n := len(all[0].Ends); n != 4 || all[0].Forgotten != 0 || all[0].Ends[0].Number != 1 || all[0].Ends[0].Zxid != 0x200000001 {
		t.Errorf("%d ends, forgotten %d: %+v", n, all[0].Forgotten, all[0].Ends)
	}
	if all[0].DigestAt != 32 || !slices.Equal(all[0].Live, []string{"0x8"}) ||
		!slices.Equal(all[0].Leads, []judge.Lead{{Term: 2, Leader: 1}}) {
		t.Errorf("%+v", all[0])
	}
	if n := len(all[1].Ends); n != 2 || all[1].Forgotten != 2 {
		t.Errorf("%d ends, forgotten %d, want 2 and 2", n, all[1].Forgotten)
	}
	if !strings.Contains(all[2].Silent, "it is broken") || !strings.Contains(all[3].Silent, "not known") {
		t.Errorf("silent: %q, %q", all[2].Silent, all[3].Silent)
	}
	if later := Gather(t.Context(), members[:2], 3); len(later[0].Ends) != 1 || later[1].Forgotten != 0 {
		t.Errorf("after the third end: %+v", later)
	}
	if fakes[0].token != "Bearer secret" {
		t.Errorf("the token: %q", fakes[0].token)
	}
	if none := Gather(t.Context(), []target.Member{{Name: "1"}}, 0); none != nil {
		t.Errorf("without HTTP: %+v", none)
	}
}

// A member that lags is queried when it has caught up. If it does not catch up, it is silent.
func TestGatherWaits(t *testing.T) {
	fakes, members := three(t)
	fakes[1].applied = []uint64{committed - 2, committed - 1, committed}
	if all := Gather(t.Context(), members, 0); all[1].Silent != "" || len(fakes[1].applied) != 1 {
		t.Errorf("silent: %q, %d answers are left", all[1].Silent, len(fakes[1].applied)-1)
	}
	fakes[1].applied = []uint64{committed - 1}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second) // it must answer once in this time
	defer stop()
	if all := Gather(ctx, members[1:2], 0); !strings.Contains(all[0].Silent, "has not applied entry 40") &&
		!strings.Contains(all[0].Silent, "deadline") {
		t.Errorf("a member that lags: %+v", all[0])
	}
}
