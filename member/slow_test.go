package member_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/internal/stages"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/operator/logs/logtest"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// slowAt is an ensemble of three members, and the member whose client sends the slow request.
type slowAt struct {
	*cluster.Ensemble
	t            *testing.T
	leader, home uint32
	other        uint32 // a follower that is not home
	client       *cluster.Client
}

// slowLength is the length of the stage that is made slow.
const slowLength = 400 * time.Millisecond

// linkLength is the length for slow links. It is shorter than the time until the members are asked, so that nothing that was
// sent over the slow link delays that query, which also compares the clocks.
const linkLength = 200 * time.Millisecond

// slowCases make one stage slow each, while set sends the request. They return the stages of which one must be the largest.
var slowCases = []struct {
	name string
	slow func(s *slowAt, set func()) (stage string, members []uint32, took time.Duration)
}{
	{"the leader's disk", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		defer s.needDisk(s.leader, slowLength)()
		set()
		return "disk", []uint32{s.leader}, slowLength
	}},
	{"followers' disks", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		for _, id := range s.Followers() {
			s.Disk(id).SetLatency(slowLength)
		}
		set()
		for _, id := range s.Followers() {
			s.Disk(id).SetLatency(0)
		}
		if s.home != s.leader {
			return "disk", []uint32{s.home}, slowLength
		}
		return "disk", s.Followers(), slowLength
	}},
	{"the links to the leader", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		for _, id := range s.Followers() {
			s.Network.DelayBy(id, s.leader, linkLength)
		}
		set()
		for _, id := range s.Followers() {
			s.Network.DelayBy(id, s.leader, 0)
		}
		if s.home != s.leader {
			return "link", []uint32{s.home}, linkLength
		}
		return "ack", s.Followers(), linkLength
	}},
	{"the links from the leader", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		for _, id := range s.Followers() {
			s.Network.DelayBy(s.leader, id, linkLength)
		}
		set()
		for _, id := range s.Followers() {
			s.Network.DelayBy(s.leader, id, 0)
		}
		return "replicate", []uint32{s.leader}, linkLength
	}},
	{"a stopped leader", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		s.pauseUnder(s.leader, set)
		return "paused", []uint32{s.leader}, slowLength
	}},
	{"a large entry before", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		c := s.Connect(20*time.Second, s.home)
		large := c.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/large"), Version: -1})
		time.Sleep(time.Millisecond)
		set()
		_, _ = large.Wait()
		if s.home == s.leader { // it makes no entry meanwhile
			return "entry", []uint32{s.home}, slowLength
		}
		return "before", []uint32{s.home}, slowLength
	}},
	{"a stopped member", func(s *slowAt, set func()) (string, []uint32, time.Duration) {
		s.pauseUnder(s.home, set)
		return "paused", []uint32{s.home}, slowLength
	}},
}

// needDisk makes the disk of a member slow, and another one, which is not home's, slower: a write needs the first one for a
// majority. It returns what ends that.
func (s *slowAt) needDisk(member uint32, by time.Duration) (end func()) {
	for _, id := range s.IDs() {
		if id != member && id != s.home {
			s.Disk(id).SetLatency(2 * by)
			s.Disk(member).SetLatency(by)
			return func() {
				s.Disk(id).SetLatency(0)
				s.Disk(member).SetLatency(0)
			}
		}
	}
	s.t.Fatal("no third member")
	return nil
}

// pauseUnder pauses a member while a request is under way between the members.
func (s *slowAt) pauseUnder(member uint32, set func()) {
	slowLinks := func(by time.Duration) {
		for _, from := range s.IDs() {
			for _, to := range s.IDs() {
				s.Network.DelayBy(from, to, by)
			}
		}
	}
	slowLinks(10 * time.Millisecond)
	time.AfterFunc(5*time.Millisecond, func() { s.Pause(member) })
	time.AfterFunc(5*time.Millisecond+slowLength, func() { s.Resume(member) })
	set()
	slowLinks(0)
}

// largeHooks lets every entry that writes /large take long.
type largeHooks struct{ member.NoHooks }

func (largeHooks) TxnApplied(txn *proto.Txn, r *znode.Result) {
	if txn.GetOp() == int32(jute.OpSetData) && len(txn.Body) > 10 && string(txn.Body[4:10]) == "/large" {
		time.Sleep(slowLength)
	}
}

// startSlow starts an ensemble with the nodes of the cases, and a client of the leader or of a follower.
func startSlow(t *testing.T, ofLeader bool, adjust ...func(*member.Config)) *slowAt {
	t.Helper()
	s := &slowAt{t: t}
	s.Ensemble = cluster.Start(t, 3, cluster.Options{Tick: 4 * time.Second, Adjust: func(cfg *member.Config) {
		cfg.Slow.Request = 100 * time.Millisecond
		cfg.Hooks = largeHooks{}
		for _, change := range adjust {
			change(cfg)
		}
	}})
	s.leader = s.Ready()
	s.home, s.other = s.Followers()[0], s.Followers()[1]
	if ofLeader {
		s.home, s.other = s.leader, s.Followers()[0]
	}
	s.client = s.Connect(20*time.Second, s.home)
	for _, path := range []string{"/node", "/large"} {
		if _, err := s.client.Create(path, nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	return s
}

func (s *slowAt) set() {
	s.t.Helper()
	if _, err := s.client.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Version: -1}); err != nil {
		s.t.Fatal(err)
	}
}

// slowest returns the newest slow request of a path, once all members were asked about it.
func (s *slowAt) slowest(path string) (found api.SlowRequest) {
	s.t.Helper()
	return s.slowestOf(func(r api.SlowRequest) bool { return r.Path == path })
}

// slowestOf returns the newest row that is wanted, once all members were asked about it.
func (s *slowAt) slowestOf(wanted func(api.SlowRequest) bool) (found api.SlowRequest) {
	s.t.Helper()
	s.Wait("the stages of a slow request", 20*time.Second, func() bool {
		a, err := s.Member(s.other).View().SlowRequests(s.t.Context(), view.SlowFilter{}, view.Page{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, one := range a.Items {
			if wanted(one) {
				found = one
				return one.Complete
			}
		}
		return false
	})
	return found
}

// checkSlow checks that the largest stage of a request is the expected one, and that the sum of all is the total.
func checkSlow(t *testing.T, r api.SlowRequest, stage string, members []uint32, took time.Duration) {
	t.Helper()
	var largest api.SlowStage
	for _, one := range r.Stages {
		if one.TookUs > largest.TookUs {
			largest = one
		}
	}
	got := time.Duration(largest.TookUs) * time.Microsecond
	if off := (got - took).Abs(); largest.Stage != stage || !slices.Contains(members, largest.MemberID) || off > took/20 {
		t.Errorf("the largest stage is %s of member %d, %v; want %s of %d, %v\n%+v", largest.Stage, largest.MemberID, got, stage,
			members, took, r)
	}
	checkSum(t, r)
}

// checkSum checks that the sum of the stages is the total. Each is truncated to microseconds.
func checkSum(t *testing.T, r api.SlowRequest) {
	t.Helper()
	var sum int64
	for _, one := range r.Stages {
		sum += one.TookUs
	}
	if sum > r.TotalUs || sum+int64(len(r.Stages)) < r.TotalUs {
		t.Errorf("the sum of the stages is %d µs, and the total %d µs: %+v", sum, r.TotalUs, r)
	}
}

// Each stage is made slow by itself, for a client of the leader and one of a follower. Every member names the stage.
func TestSlowStages(t *testing.T) {
	for _, c := range slowCases {
		for _, ofLeader := range []bool{true, false} {
			name := c.name + ", a client of a follower"
			if ofLeader {
				name = c.name + ", a client of the leader"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := startSlow(t, ofLeader)
					stage, members, took := c.slow(s, s.set)
					checkSlow(t, s.slowest("/node"), stage, members, took)
				})
			})
		}
	}
}

// Without a leader, the time until another one serves is named, with its length.
func TestSlowElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSlow(t, false)
		s.Pause(s.leader)
		begun := time.Now()
		s.set()
		took := time.Since(begun)
		s.Resume(s.leader)
		r := s.slowest("/node")
		checkSum(t, r)
		checkSlow(t, r, "no_leader", []uint32{s.home}, took)
	})
}

// A leader that is cut off loses its leadership before it has the confirmation of a write, which is committed by the next leader.
// The confirmation is named until then, and the time without a leader after it.
func TestSlowDeposedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSlow(t, true)
		const delay, cutFor = 10 * time.Millisecond, 4 * time.Second
		for _, id := range s.Followers() {
			s.Network.DelayBy(s.leader, id, delay)
			s.Network.DelayBy(id, s.leader, delay)
		}
		time.AfterFunc(delay+delay/2, func() { s.Isolate(s.home) }) // the followers have the entry
		time.AfterFunc(cutFor, func() { s.Rejoin(s.home) })
		s.set()
		r := s.slowest("/node")
		checkSum(t, r)
		took := map[string]time.Duration{}
		for _, one := range r.Stages {
			took[one.Stage] += time.Duration(one.TookUs) * time.Microsecond
		}
		total := time.Duration(r.TotalUs) * time.Microsecond
		if took["no_leader"] < cutFor/2 || took["ack"] < cutFor/8 || took["no_leader"]+took["ack"] < total-3*delay {
			t.Errorf("%v of %v: %+v", took, total, r.Stages)
		}
	})
}

// A snapshot makes a write wait for the disk. The disk is named, and the snapshot as the cause.
func TestSlowSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSlow(t, false)
		end := s.needDisk(s.home, slowLength)
		written := make(chan error, 1)
		go func() {
			_, err := s.Member(s.home).Operations().StoreSnapshot(t.Context())
			written <- err
		}()
		s.set()
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		end()
		r := s.slowest("/node")
		checkSlow(t, r, "disk", []uint32{s.home}, slowLength)
		if len(r.Causes) == 0 || r.Causes[0].Cause != "snapshot" || r.Causes[0].MemberID != s.home {
			t.Errorf("the causes are %+v; want the snapshot of member %d", r.Causes, s.home)
		}
	})
}

// Each class of requests has its own threshold, and slowRequestThreshold is the one of the others.
func TestSlowThresholds(t *testing.T) {
	for want, slow := range map[string]config.SlowThresholds{
		"getData": {Read: slowLength}, "setData": {Write: slowLength}, "closeSession": {Session: slowLength}, "": {},
	} {
		t.Run("only "+want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow.Request = 3 * slowLength
				s := startSlow(t, true, func(cfg *member.Config) { cfg.Slow = slow })
				end := s.needDisk(s.leader, slowLength)
				calls := []*cluster.Call{
					s.client.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Version: -1}),
					s.client.Go(jute.OpGetData, jute.GetDataRequest{Path: []byte("/node")}),
					s.client.Go(jute.OpCloseSession, nil),
				}
				for _, call := range calls {
					if _, err := call.Wait(); err != nil {
						t.Fatal(err)
					}
				}
				end()
				time.Sleep(time.Second)
				a, err := s.Member(s.other).View().SlowRequests(t.Context(), view.SlowFilter{}, view.Page{})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, one := range a.Items {
					got = append(got, one.Op)
				}
				if strings.Join(got, " ") != want {
					t.Errorf("the slow requests are %q; want %q", got, want)
				}
			})
		})
	}
}

// A sync that takes longer than fsync.warningthresholdms is one of the causes of a slow request, and a line of its member's
// log. A faster one is not.
func TestSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		s := startSlow(t, false, func(cfg *member.Config) {
			cfg.Slow.Sync = slowLength
			cfg.Logger = slog.New(slog.NewTextHandler(&lines, nil)).With("member", cfg.ID)
		})
		slow := []uint32{s.leader, s.other}
		take := func(by time.Duration) {
			for _, id := range slow {
				s.Disk(id).SetLatency(by)
			}
		}
		take(slowLength - 50*time.Millisecond)
		s.set()
		take(0)
		if r := s.slowest("/node"); len(r.Causes) > 0 {
			t.Errorf("the causes are %+v; want none", r.Causes)
		}
		take(slowLength)
		s.set()
		take(0)
		r := s.slowest("/node")
		checkSlow(t, r, "disk", slow, slowLength)
		if len(r.Causes) != 2 || r.Causes[0].Cause != "slow sync" || r.Causes[1].Cause != "slow sync" || !slices.Contains(slow, r.Causes[0].MemberID) {
			t.Errorf("the causes are %+v; want a slow sync of the members %d", r.Causes, slow)
		}
		got := linesOf(&lines, "slow sync")
		for _, id := range slow {
			if n := len(got); n != 2 || !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, fmt.Sprintf("member=%d", id)) }) {
				t.Errorf("member %d was slow, and the %d lines are %q", id, n, got)
			}
		}
	})
}

// linesOf returns the lines with a message.
func linesOf(lines *logtest.Buffer, message string) (found []string) {
	for line := range strings.Lines(lines.String()) {
		if strings.Contains(line, `msg="`+message+`"`) {
			found = append(found, line)
		}
	}
	return found
}

// slowLine is a line about a slow request of a write, with all its fields.
var slowLine = regexp.MustCompile(`level=WARN msg="slow request" member=\d id=\d+-[0-9a-f]+ op=setData took=400ms session=0x[0-9a-f]+ client=\S+ ` +
	`largest="the disk of member \d" stage=disk stage_took=400ms skipped=(\d+)`)

// A line names a slow request, its session and its largest stage. It has no data and no path, because whoever may read the
// log may not be allowed to read the nodes. At most one line is written in a second, and the next one counts the others.
func TestSlowLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		s := startSlow(t, true, func(cfg *member.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&lines, nil))
		})
		set := func(requests int) {
			end := s.needDisk(s.leader, slowLength)
			var calls []*cluster.Call
			for range requests {
				calls = append(calls, s.client.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Data: []byte("content"), Version: -1}))
			}
			for _, call := range calls {
				if _, err := call.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			end()
			time.Sleep(2 * time.Second)
		}
		set(3)
		set(1)
		got := linesOf(&lines, "slow request")
		if len(got) != 2 {
			t.Fatalf("the lines are %q; want 2", got)
		}
		for i, skipped := range []string{"0", "2"} {
			if fields := slowLine.FindStringSubmatch(got[i]); fields == nil || fields[1] != skipped {
				t.Errorf("line %d is %q; want one that has skipped %s", i, got[i], skipped)
			}
			if strings.Contains(got[i], "/node") || strings.Contains(got[i], "content") {
				t.Errorf("line %d has a path or data: %q", i, got[i])
			}
		}
	})
}

// A client that does not read its reply is named.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ofLeader := range []bool{true, false} {
			s := startSlow(t, ofLeader)
			if _, err := s.client.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Data: make([]byte, 900<<10), Version: -1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			conn, _ := s.Open(s.home, 20*time.Second)
			if err := conn.Send(7, jute.OpGetData, jute.GetDataRequest{Path: []byte("/node")}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(slowLength)
			if _, err := conn.Recv(); err != nil {
				t.Fatal(err)
			}
			r := s.slowest("/node")
			checkSlow(t, r, "taken", []uint32{s.home}, slowLength)
			if r.Xid != 7 || r.Op != "getData" {
				t.Errorf("the request is %s with xid %d", r.Op, r.Xid)
			}
			conn.Close()
		}
	})
}

// The members select the slow requests of a session or of an address, also page by page.
func TestSlowFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSlow(t, true)
		clients := []*cluster.Client{s.client, s.Connect(20*time.Second, s.home), s.Connect(20*time.Second, s.other)}
		s.Disk(s.leader).SetLatency(slowLength)
		s.Disk(s.other).SetLatency(slowLength)
		for range 2 {
			for _, c := range clients {
				if _, err := c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Version: -1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Disk(s.leader).SetLatency(0)
		s.Disk(s.other).SetLatency(0)
		time.Sleep(time.Second)
		list := func(f view.SlowFilter) (found []api.SlowRequest) {
			for page := (view.Page{Limit: 1}); ; {
				a, err := s.Member(s.other).View().SlowRequests(t.Context(), f, page)
				if err != nil || len(a.Silent) > 0 {
					t.Fatalf("%+v: silent %v, %v", f, a.Silent, err)
				}
				found = append(found, a.Items...)
				if page.Cursor = a.NextCursor; page.Cursor == "" {
					return found
				}
			}
		}
		addresses := map[string]bool{}
		for _, c := range clients {
			found := list(view.SlowFilter{Session: c.Session()})
			if len(found) != 2 || found[0].SessionID != c.Session().String() || found[1].SessionID != found[0].SessionID {
				t.Fatalf("of session %v: %+v", c.Session(), found)
			}
			address := found[0].Address
			addresses[address] = true
			if found = list(view.SlowFilter{Address: address}); len(found) != 2 || found[0].Address != address || found[1].Address != address {
				t.Errorf("of %s: %+v", address, found)
			}
			if found = list(view.SlowFilter{Session: c.Session(), Address: "10.9.9.9"}); len(found) != 0 {
				t.Errorf("of session %v at another address: %+v", c.Session(), found)
			}
			if found = list(view.SlowFilter{Session: c.Session(), Member: s.other}); (len(found) == 2) != (c == clients[2]) {
				t.Errorf("of session %v on member %d: %+v", c.Session(), s.other, found)
			}
		}
		if all := list(view.SlowFilter{}); len(addresses) != 3 || len(all) < 6 {
			t.Errorf("%d requests of %v", len(all), addresses)
		}
	})
}

// A request that comes while the process of its member does not run waits in its socket, and nothing of it is recorded. A line
// of the member's log says how long that was.
func TestPauseIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		s := startSlow(t, false, func(cfg *member.Config) {
			cfg.Logger, cfg.HeartbeatTimeout = slog.New(slog.NewTextHandler(&lines, nil)), slowLength/2
		})
		for _, pause := range []time.Duration{80 * time.Millisecond, slowLength} {
			s.Pause(s.home)
			time.AfterFunc(pause, func() { s.Resume(s.home) })
			s.set()
			time.Sleep(2 * time.Second)
		}
		got := linesOf(&lines, "the process did not run")
		if len(got) != 1 {
			t.Fatalf("the lines are %q; want 1", got)
		}
		_, fields, _ := strings.Cut(got[0], " level=WARN ")
		var member, took int
		if !strings.Contains(fields, "set failover=") {
			t.Errorf("the line %q does not name the key to change", fields)
		}
		_, err := fmt.Sscanf(fields, "msg=\"the process did not run\" member=%d took=%dms skipped=0", &member, &took)
		if off := (time.Duration(took)*time.Millisecond - slowLength).Abs(); err != nil || member != int(s.home) || off > 20*time.Millisecond {
			t.Errorf("member %d was paused for %v; the line is %q, %v", s.home, slowLength, got[0], err)
		}
	})
}

// A pause of a member's process is a row of its own, on every member, whether it leads, follows or is alone: a read that came
// meanwhile waited in its socket, and does not look slow. A filter for clients leaves the pause out.
func TestPauseIsListed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		members int
		leads   bool
	}{{"the leader", 3, true}, {"a follower", 3, false}, {"alone", 1, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pause = 350 * time.Millisecond // a leader keeps its place
				s := cluster.Start(t, tt.members, cluster.Options{Tick: 4 * time.Second, Adjust: func(cfg *member.Config) {
					cfg.Slow.Request, cfg.HeartbeatTimeout = 100*time.Millisecond, time.Second
				}})
				home := s.Ready()
				if !tt.leads {
					home = s.Followers()[0]
				}
				client := s.Connect(20*time.Second, home)
				time.Sleep(time.Second)
				begun := time.Now()
				s.Pause(home)
				time.AfterFunc(pause, func() { s.Resume(home) })
				if _, err := client.Do(jute.OpGetData, jute.GetDataRequest{Path: []byte("/")}); err != nil || time.Since(begun) < pause {
					t.Fatalf("the read took %v, %v", time.Since(begun), err)
				}
				s.Wait("the end of the pause", time.Second, func() bool {
					a, _ := s.Member(home).View().SlowRequests(t.Context(), view.SlowFilter{}, view.Page{})
					return len(a.Items) > 0
				})
				for _, id := range s.IDs() {
					list := func(f view.SlowFilter) []api.SlowRequest {
						a, err := s.Member(id).View().SlowRequests(t.Context(), f, view.Page{})
						if err != nil || len(a.Silent) > 0 {
							t.Fatal(a.Silent, err)
						}
						return a.Items
					}
					found := list(view.SlowFilter{})
					if len(found) != 1 || found[0].Op != stages.PauseOp || found[0].MemberID != home || found[0].Connections != 1 {
						t.Fatalf("member %d lists %+v", id, found)
					}
					took := time.Duration(found[0].TotalUs) * time.Microsecond
					if (took-pause).Abs() > 30*time.Millisecond || found[0].ReceivedAt.Sub(begun).Abs() > 30*time.Millisecond {
						t.Errorf("a pause of %v is %+v", pause, found[0])
					}
					if want := fmt.Sprintf("the process of member %d did not run; connected clients: 1", home); found[0].Largest != want {
						t.Errorf("%q; want %q", found[0].Largest, want)
					}
					if found = list(view.SlowFilter{Session: client.Session()}); len(found) != 0 {
						t.Errorf("of the session: %+v", found)
					}
				}
			})
		})
	}
}

// The opening of a session and its resumption are requests: a slow one is kept with all stages of its entry.
func TestSlowOpening(t *testing.T) {
	for _, ofLeader := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := startSlow(t, ofLeader)
			slowed := func(op string, open func()) {
				end := s.needDisk(s.leader, slowLength)
				open()
				end()
				r := s.slowestOf(func(r api.SlowRequest) bool { return r.Op == op })
				checkSlow(t, r, "disk", []uint32{s.leader}, slowLength)
				if r.MemberID != s.home || r.SessionID == "" || r.Address == "" || r.Index == 0 {
					t.Errorf("a row of %s: %+v", op, r)
				}
			}
			slowed("createSession", func() {
				if err := s.Connect(20*time.Second, s.home).WaitConnected(20 * time.Second); err != nil {
					t.Fatal(err)
				}
			})
			conn, opened := s.Open(s.home, 20*time.Second)
			conn.Close()
			slowed("attach", func() {
				conn, err := s.Dial(s.home)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if got, err := conn.Resume(opened, 0); err != nil || got.SessionID != opened.SessionID {
					t.Fatal(got, err)
				}
			})
		})
	}
}

// A write whose connection ends before there is a reply is kept, with the time in which the member had no leader.
func TestSlowWithoutReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSlow(t, false)
		for _, id := range s.IDs() {
			if id != s.home {
				s.Kill(id)
			}
		}
		begun := time.Now()
		if _, err := s.client.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Version: -1}); err == nil {
			t.Fatal("a write without a majority has a reply")
		}
		took := time.Since(begun)
		var found []api.SlowRequest
		s.Wait("the write", 20*time.Second, func() bool {
			a, err := s.Member(s.home).View().SlowRequests(t.Context(), view.SlowFilter{Session: s.client.Session()}, view.Page{})
			if err != nil {
				t.Fatal(err)
			}
			found = a.Items
			return len(found) == 1 && found[0].Complete
		})
		r, of := found[0], map[string]time.Duration{}
		checkSum(t, r)
		for _, one := range r.Stages {
			of[one.Stage] += time.Duration(one.TookUs) * time.Microsecond
		}
		if r.Op != "setData" || r.Path != "/node" || !r.Lost || !strings.HasSuffix(r.Largest, "; no reply: the connection ended") ||
			of["no_leader"] < took/2 || of["no_reply"]+of["no_leader"] < took-time.Second/10 {
			t.Errorf("the write, without a reply after %v, is %+v", took, r)
		}
	})
}

// With random faults, the sum of the stages of every slow request is its total.
func TestSlowSums(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			s, rng := startSlow(t, seed%2 == 0), rand.New(rand.NewPCG(seed, 0))
			clients := []*cluster.Client{s.client, s.Connect(20*time.Second, s.other)}
			for range 40 {
				a, b := 1+rng.Uint32N(3), 1+rng.Uint32N(3)
				late := time.Duration(rng.IntN(300)) * time.Millisecond
				switch rng.IntN(4) {
				case 0:
					s.Disk(a).SetLatency(late)
				case 1:
					s.Disk(a).SetLatency(0)
				case 2:
					if a != b {
						s.Network.DelayBy(a, b, late)
					}
				case 3:
					s.Pause(a)
					time.AfterFunc(late, func() { s.Resume(a) })
				}
				for _, c := range clients {
					c.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/node"), Version: -1})
					c.Go(jute.OpGetData, jute.GetDataRequest{Path: []byte("/node")})
				}
				time.Sleep(400 * time.Millisecond)
			}
			for _, from := range s.IDs() {
				s.Disk(from).SetLatency(0)
				for _, to := range s.IDs() {
					s.Network.DelayBy(from, to, 0)
				}
			}
			time.Sleep(20 * time.Second)
			a, err := s.Member(s.home).View().SlowRequests(t.Context(), view.SlowFilter{}, view.Page{})
			if err != nil || len(a.Items) < 10 || len(a.Silent) > 0 {
				t.Fatalf("%d slow requests, silent %v, %v", len(a.Items), a.Silent, err)
			}
			for _, r := range a.Items {
				if checkSum(t, r); !r.Complete {
					t.Errorf("not complete: %+v", r)
				}
			}
		})
	}
}
