package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

// fakeEnsemble answers under /v1/members as a member does, about an ensemble that moves on by a step with each look.
type fakeEnsemble struct {
	*httptest.Server
	mu      sync.Mutex
	list    serverlist.List
	raft    map[uint32]api.Server // raft's configuration: the fields Configured and Voter, and Applied
	leader  uint32
	version uint64
	down    map[uint32]bool
	drained bool
	looks   int
	stuck   int        // for how many looks nothing moves on
	broken  int        // how many looks fail
	refusal *api.Error // of the next change
	removed bool       // the member that answers was removed, and has an old list
	self    uint32     // the member that answers, unless it is 0; it is removed when the list lacks it
	posts   []string
	onLook  func(n int)
}

// allEntries is how many entries the leader of the fake ensemble has committed.
const allEntries = 1000

func newFakeEnsemble(t *testing.T, list string) *fakeEnsemble {
	t.Helper()
	servers, err := serverlist.ParseList(list)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEnsemble{list: servers, raft: map[uint32]api.Server{}, leader: 1, version: 0x400000005, down: map[uint32]bool{}}
	for _, s := range servers {
		f.raft[s.ID] = api.Server{RaftAddress: s.ElectionAddr(), IsVoter: !s.Observer, AppliedIndex: allEntries}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(api.OpenAPI) })
	mux.HandleFunc("GET /v1/members", func(w http.ResponseWriter, _ *http.Request) { f.look(w) })
	mux.HandleFunc("POST /v1/{what...}", f.post)
	f.Server = newServer(t, mux)
	t.Cleanup(f.Close)
	return f
}

// look answers with the servers, and moves on.
func (f *fakeEnsemble) look(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks++; f.onLook != nil {
		f.onLook(f.looks)
	}
	if f.broken > 0 {
		f.broken--
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(api.Failure{Error: "no answer"})
		return
	}
	committed := uint64(allEntries)
	m := api.Members{Version: fmt.Sprintf("0x%x", f.version), LeaderID: f.leader, CommittedIndex: &committed, IsSettled: true, Silent: []api.Silence{}, Items: []api.Server{}}
	for id := uint32(1); id < 10; id++ {
		if s, known := f.server(id); known {
			m.Items = append(m.Items, s)
		}
	}
	_, listed := f.list.Find(f.self)
	m.WasRemoved = f.removed || f.self != 0 && !listed
	_ = json.NewEncoder(w).Encode(m)
	if f.stuck > 0 {
		f.stuck--
		return
	}
	f.step()
}

func (f *fakeEnsemble) server(id uint32) (api.Server, bool) {
	s, in := f.raft[id]
	line, listed := f.list.Find(id)
	s.MemberID, s.State, s.IsDrained, s.NeededForMajority = id, api.StateFollower, f.drained && id == 3, f.needed(id)
	if listed {
		s.ListLine, s.Role, s.QuorumAddress, s.ElectionAddress, s.ClientAddress = line.String(), roleName(line), line.QuorumAddr(), line.ElectionAddr(), line.ClientAddr()
	}
	switch {
	case f.down[id]:
		s.State, s.Detail, s.AppliedIndex = api.StateSilent, "down: connection refused", 0
	case !listed && !in && id == f.self:
		s.State = api.StateRemoved
	case !listed:
		s.State = api.StateLeaving
	case !in:
		s.State = api.StateJoining
	case s.AppliedIndex < allEntries || !s.IsVoter && !line.Observer:
		s.State = api.StateCatchingUp
	case line.Observer:
		s.State = api.StateObserver
	case id == f.leader:
		s.State = api.StateLeader
	}
	return s, in || listed || id == f.self
}

func (f *fakeEnsemble) needed(id uint32) bool {
	voters, alive := 0, 0
	for other, s := range f.raft {
		if s.IsVoter {
			voters++
			if !f.down[other] && other != id {
				alive++
			}
		}
	}
	return f.raft[id].IsVoter && alive < voters/2+1
}

// step moves raft's configuration towards the list.
func (f *fakeEnsemble) step() {
	for _, line := range f.list {
		s, in := f.raft[line.ID]
		switch {
		case f.down[line.ID]:
			continue
		case !in || s.RaftAddress != line.ElectionAddr():
			s.RaftAddress = line.ElectionAddr()
		case s.AppliedIndex < allEntries:
			s.AppliedIndex += allEntries / 2
		default:
			s.IsVoter = !line.Observer
		}
		f.raft[line.ID] = s
	}
	for id := range f.raft {
		if _, listed := f.list.Find(id); !listed {
			delete(f.raft, id)
			if f.leader == id {
				f.leader = f.list[0].ID
			}
		}
	}
}

func (f *fakeEnsemble) post(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.posts = append(f.posts, r.PathValue("what")+" "+string(body))
	if f.refusal != nil {
		w.WriteHeader(f.refusal.Status)
		_ = json.NewEncoder(w).Encode(api.Failure{Error: f.refusal.Text, Reason: f.refusal.Reason})
		f.refusal = nil
		return
	}
	switch r.PathValue("what") {
	case "members/lead":
		var wanted api.MembersLead
		_ = json.Unmarshal(body, &wanted)
		f.leader = wanted.Member
		_ = json.NewEncoder(w).Encode(api.MembersLed{LeaderID: f.leader})
	case "members/drain":
		f.drained, f.leader = true, 1
		_ = json.NewEncoder(w).Encode(api.Drained{ClosedConnections: 7})
	default:
		var c api.MembersChange
		_ = json.Unmarshal(body, &c)
		list, err := f.list.Apply(serverlist.Change{Joining: c.Joining, Leaving: c.Leaving, Members: c.Members})
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(api.Failure{Error: err.Error()})
			return
		}
		f.list, f.version = list, f.version+1
		_ = json.NewEncoder(w).Encode(api.MembersChanged{Version: fmt.Sprintf("0x%x", f.version), Servers: list.CanonicalLines()})
	}
}

// sent returns what was posted since the last call.
func (f *fakeEnsemble) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	posts := f.posts
	f.posts = nil
	return posts
}

const (
	oneToThree = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181"
	four       = "server.4=d:2888:3888;2181"
)

// run runs a command line, in which words with blanks are not possible.
func (f *fakeEnsemble) run(t *testing.T, line string, more ...string) (out, errs string, err error) {
	t.Helper()
	w, stdout, stderr := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	w.membersPollInterval = time.Millisecond
	_, err = Execute(t.Context(), NewRoot(w, "1"), append(strings.Fields("members "+line), more...))
	return stdout.String(), stderr.String(), err
}

// Each command changes the list once, waits until raft's configuration has followed, and says how far it is. Run again, it
// changes nothing.
func TestMembersCommands(t *testing.T) {
	for _, tt := range []struct {
		line  string
		list  string // at the beginning; default: oneToThree
		sent  []string
		out   string
		shows []string // lines of the progress
	}{
		{
			line: "add " + four, sent: []string{`members {"joining":"server.4=d:2888:3888:participant;0.0.0.0:2181","leaving":"","members":"","version":"0x400000005","force":false,"by_self":false}`},
			out: "member 4 votes; the list has version 0x400000006\n", shows: []string{"member 4: joining", "member 4: catching up 0 of 1000"},
		},
		{
			line: "add 4=d:2888:3888;2181", sent: []string{`members {"joining":"server.4=d:2888:3888:participant;0.0.0.0:2181"`},
			out: "member 4 votes; the list has version 0x400000006\n",
		},
		{
			line: "add server.4=d:2888:3888:observer;2181 --force", sent: []string{`members {"joining":"server.4=d:2888:3888:observer;0.0.0.0:2181","leaving":"","members":"","version":"0x400000005","force":true,"by_self":false}`},
			out: "member 4 observes; the list has version 0x400000006\n", shows: []string{"member 4: joining", "member 4: catching up"},
		},
		{
			line: "remove 3", sent: []string{`members {"joining":"","leaving":"3","members":"","version":"0x400000005","force":false,"by_self":false}`},
			out: "member 3 is not in the ensemble; the list has version 0x400000006\n", shows: []string{"member 3: leaving"},
		},
		{
			line: "replace 3 " + four, sent: []string{`members {"joining":"server.4=`, `members {"joining":"","leaving":"3","members":"","version":"0x400000006","force":false,"by_self":false}`},
			out: "member 4 votes in place of member 3; the list has version 0x400000007\n", shows: []string{"member 4: catching up 0 of 1000", "member 3: leaving"},
		},
		{
			line: "address 3 server.3=x:2888:3888;2181", sent: []string{`members {"joining":"server.3=x:2888:3888:participant;0.0.0.0:2181"`},
			out: "member 3 is at x:2888; the list has version 0x400000006\n",
		},
		{
			line: "demote 3", sent: []string{`members {"joining":"server.3=c:2888:3888:observer;0.0.0.0:2181"`}, out: "member 3 observes; the list has version 0x400000006\n",
		},
		{
			line: "promote 4", list: oneToThree + "\nserver.4=d:2888:3888:observer;2181", sent: []string{`members {"joining":"server.4=d:2888:3888:participant;0.0.0.0:2181"`},
			out: "member 4 votes; the list has version 0x400000006\n", shows: []string{"member 4: catching up 1000 of 1000"},
		},
		{line: "lead 2", sent: []string{`members/lead {"member":2}`}, out: "member 2 leads\n"},
	} {
		list := tt.list
		if list == "" {
			list = oneToThree
		}
		f := newFakeEnsemble(t, list)
		f.stuck = 3
		out, errs, err := f.run(t, tt.line)
		sent := f.sent()
		for _, s := range f.list {
			if in := f.raft[s.ID]; in.RaftAddress != s.ElectionAddr() || in.IsVoter == s.Observer {
				t.Errorf("%s: it ends while raft's configuration has %+v for %v", tt.line, in, s)
			}
		}
		if err != nil || out != tt.out || len(sent) != len(tt.sent) {
			t.Errorf("%s: printed %q, sent %q, %v; want %q, %q", tt.line, out, sent, err, tt.out, tt.sent)
			continue
		}
		for i := range sent {
			if !strings.HasPrefix(sent[i], tt.sent[i]) {
				t.Errorf("%s: sent %s, want %s", tt.line, sent[i], tt.sent[i])
			}
		}
		for _, line := range tt.shows {
			if !strings.Contains(errs, "rollcall: "+line) {
				t.Errorf("%s: tells %q, want %q", tt.line, errs, line)
			}
		}
		words := strings.Fields(tt.line)
		if words[0] == "remove" {
			tt.line += " --if-exists"
		}
		again, _, err := f.run(t, tt.line)
		if sent := f.sent(); err != nil || len(sent) != 0 || again != unchanged(tt.out) {
			t.Errorf("%s, again: printed %q, sent %q, %v", tt.line, again, sent, err)
		}
		printed, _, err := f.run(t, tt.line+" -o json")
		if err != nil {
			t.Errorf("%s -o json: %v", tt.line, err)
		}
		checkSchema(t, "members "+words[0], printed)
	}
}

// unchanged returns what a command prints that finds everything as it should be. The list has its next versions from
// commands that have changed it.
func unchanged(out string) string {
	return strings.Replace(out, "; the list", "; nothing was to be changed; the list", 1)
}

// A command that cannot do what it is asked says why, and with which status.
func TestMembersCommandsRefuse(t *testing.T) {
	for _, tt := range []struct {
		line    string
		refusal *api.Error
		status  Status
		want    string
	}{
		{"lst", nil, UsageError, `members: unknown command "lst"; did you mean list? rollcall members -h lists all of them`},
		{"remove 9", nil, NotFound, "members remove: the ensemble has no member 9; rollcall members list shows the servers, and --if-exists makes this a success"},
		{"add 4=d:1", nil, UsageError, "members add: server.4: must be host:quorumPort"},
		{"add", nil, UsageError, "it takes the line of a server"},
		{"add server.4=d:1", nil, UsageError, "members add: server.4: must be host:quorumPort"},
		{"add server.4=d:1:2", nil, UsageError, "the port for clients is missing; write the line with ;clientPort at the end"},
		{"add " + four + "," + oneToThree[:25], nil, UsageError, "give the line of one server"},
		{"add server.3=d:2888:3888;2181", nil, Conflict, "the list has member 3 already, as server.3=c:2888:3888:participant;0.0.0.0:2181; rollcall members address"},
		{"add " + four, &api.Error{Status: 409, Text: "too few; force makes it"}, Conflict, "members add: too few; force makes it (--force)"},
		{"add --force " + four, &api.Error{Status: 409, Text: "too few; force makes it"}, Conflict, "members add: too few; force makes it"},
		{"add " + four, &api.Error{Status: 504, Text: "the leader was lost"}, OutcomeUnknown, "the change is not confirmed: the leader was lost; run the command again"},
		{"add " + four, &api.Error{Status: 401, Text: "this needs credentials"}, Denied, "--token-file or --auth"},
		{"remove x", nil, UsageError, `"x" is not the id of a server: must be 1 to 255`},
		{"replace 3 server.3=d:2888:3888;2181", nil, UsageError, "the new server needs another id than 3"},
		{"replace 7 " + four, nil, NotFound, "the list has no member 7"},
		{"address 3 " + four, nil, UsageError, "the line is that of server 4, not of 3"},
		{"address 4 " + four, nil, NotFound, "the list has no member 4"},
		{"address 3 server.3=d:2888:3888:observer;2181", nil, Conflict, "member 3 is a participant in the list"},
		{"promote 7", nil, NotFound, "the list has no member 7"},
		{"demote 5", nil, UsageError, "rollcall members address 5 'server.5=e:2888:3888:participant;clientPort' adds it"},
		{"lead 0", nil, UsageError, "is not the id of a server"},
		{"lead 5", &api.Error{Status: 503, Text: "no leader"}, Unavailable, "members lead: no leader"},
		{"drain 9", nil, NotFound, "the list has no member 9"},
	} {
		f := newFakeEnsemble(t, oneToThree+"\nserver.5=e:2888:3888")
		f.refusal = tt.refusal
		out, _, err := f.run(t, tt.line)
		if out != "" || StatusOf(err) != tt.status || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: printed %q, %v, status %d; want %q, status %d", tt.line, out, err, StatusOf(err), tt.want, tt.status)
		}
	}
}

// A command that is stopped while it waits says what continues without it. Run again, it continues where it is.
func TestMembersCommandIsStopped(t *testing.T) {
	f := newFakeEnsemble(t, oneToThree)
	f.down[4] = true
	stop := func(line string) error {
		w, _, errs := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
		w.membersPollInterval = time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.onLook = func(int) {
			if len(f.posts) > 0 && f.looks > 4 {
				cancel()
			}
		}
		_, err := Execute(ctx, NewRoot(w, "1"), strings.Fields(line))
		if !strings.Contains(errs.String(), "member 4: silent (down: connection refused); start it") {
			t.Errorf("tells %q", errs)
		}
		return err
	}
	err := stop("members replace 3 " + four)
	if StatusOf(err) != Failed || !strings.Contains(fmt.Sprint(err), "members replace: stopped; the ensemble is still adding member 4; run the command again: it continues where it is; member 3 is still in the ensemble") {
		t.Errorf("%v", err)
	}
	f.mu.Lock()
	f.onLook, f.down[4] = nil, false
	f.mu.Unlock()
	f.sent()
	out, _, err := f.run(t, "replace 3 "+four)
	if sent := f.sent(); err != nil || len(sent) != 1 || !strings.Contains(sent[0], `"leaving":"3"`) || !strings.HasPrefix(out, "member 4 votes in place of member 3") {
		t.Errorf("again: printed %q, sent %q, %v", out, sent, err)
	}
}

// A command that waits goes on although a member does not answer for a while.
func TestMembersCommandIsPatient(t *testing.T) {
	f := newFakeEnsemble(t, oneToThree)
	f.onLook = func(n int) {
		if n == 2 {
			f.broken = 3
		}
	}
	if out, _, err := f.run(t, "add "+four); err != nil || !strings.HasPrefix(out, "member 4 votes") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// A member is drained by way of any other. The command refuses if the others have no majority.
func TestMembersDrain(t *testing.T) {
	f := newFakeEnsemble(t, oneToThree)
	f.leader = 3
	out, _, err := f.run(t, "drain 3 --over 100ms")
	if sent := f.sent(); err != nil || out != "member 3: drained, 7 connections closed; it is safe to stop it\n" || len(sent) != 1 || sent[0] != `members/drain {"member":3,"over_ms":100}` {
		t.Errorf("printed %q, sent %q, %v", out, sent, err)
	}
	f.down[2] = true
	_, _, err = f.run(t, "drain 3")
	if sent := f.sent(); StatusOf(err) != Conflict || !strings.Contains(fmt.Sprint(err), "without member 3 no majority of the voters would be alive") || len(sent) != 0 {
		t.Errorf("%v, sent %q", err, sent)
	}
	if out, _, err = f.run(t, "drain 3 --force -o json"); err != nil {
		t.Error(err)
	}
	checkSchema(t, "members drain", out)
}

// A server that catches up has its rate in the list.
func TestMembersListHasRates(t *testing.T) {
	for _, tt := range []struct {
		from, to uint64
		over     time.Duration
		want     string
	}{
		{100, 600, 2 * time.Second, "250"},
		{100, 100, time.Second, "none"},
		{100, 50, time.Second, "none"},
	} {
		got := "none"
		if rate := entriesPerSecond(tt.from, tt.to, tt.over); rate != nil {
			got = fmt.Sprint(*rate)
		}
		if got != tt.want {
			t.Errorf("%d to %d in %v: %s, want %s", tt.from, tt.to, tt.over, got, tt.want)
		}
	}
	row := serverRow{Server: api.Server{State: api.StateCatchingUp, AppliedIndex: 1200}, LeaderCommitted: ptr(uint64(5000)), EntriesPerSecond: ptr(int64(800))}
	if got := formatServerState(row); got != "catching up 1200 of 5000, 800/s" {
		t.Errorf("%q", got)
	}
}

// Without a subcommand the command lists the servers, in the same formats.
func TestMembersLists(t *testing.T) {
	f := newFakeEnsemble(t, oneToThree)
	for _, format := range []string{"table", "json"} {
		want, _, err := f.run(t, "list -o "+format)
		if got, _, bare := f.run(t, "-o "+format); err != nil || bare != nil || got != want || !strings.Contains(got, "c:2888") {
			t.Errorf("%s: printed %q, %v, want %q, %v", format, got, bare, want, err)
		}
	}
}
