package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// questions are the requests about v that an operator may send to any member, as paths below /v1/.
func (v *viewed) questions() []string {
	of := func(id jute.SessionID) string { return "sessions/" + id.String() }
	owner := v.owner.Session()
	return []string{
		"sessions", "sessions?state=connected", "sessions?member=2", of(owner), of(owner) + "/watches", of(owner) + "/ephemerals",
		"connections", "watches?path=/lock-1", "owner?path=/lock-2", "owner?path=/none", "ends", "removals",
	}
}

// changing are the keys whose values change with time alone, or say how a silent member was met.
var changing = []string{"left_ms", "heard_ms", "received", "sent", "last_op", "last_us", "min_us", "avg_us", "max_us", "last_zxid", "reason", "detail"}

// fullReply returns a member's reply to a question, put together from pages of five, without the parts that change. It
// fails the test if a page comes late.
func (v *viewed) fullReply(at uint32, question string) any {
	v.t.Helper()
	path, text, _ := strings.Cut(question, "?")
	query, err := url.ParseQuery(text)
	if err != nil {
		v.t.Fatal(err)
	}
	var all map[string]any
	for {
		list := slices.Contains([]string{"sessions", "connections", "watches", "ephemerals", "ends", "removals"}, path[strings.LastIndexByte(path, '/')+1:])
		if list {
			query.Set("limit", "5")
		}
		begun := time.Now()
		page, err := api.Get[map[string]any](v.t.Context(), v.Operator(at), path, query)
		most := viewDeadline
		if query.Has("from") {
			most += 8 * time.Millisecond // the pause before a page that follows another one
		}
		if took := time.Since(begun); err != nil || took > most {
			v.t.Fatalf("member %d: %s: after %v: %v", at, question, took, err)
		}
		if all == nil {
			all = page
		} else {
			all["items"], all["silent"] = append(all["items"].([]any), page["items"].([]any)...), page["silent"] // with those of the pages before
		}
		if next, _ := page["next"].(string); next != "" {
			query.Set("from", next)
			continue
		}
		delete(all, "next")
		return without(all, changing)
	}
}

// without returns a value of JSON without some keys, also in what is within it.
func without(value any, keys []string) any {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			if v[key] = without(of, keys); slices.Contains(keys, key) {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], keys)
		}
	}
	return value
}

// asText returns a value as JSON.
func asText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return rates.ReplaceAllString(string(text), "")
}

// rates are the fields of a connection that depend on the moment of the question.
var rates = regexp.MustCompile(`"(bytes|requests)_per_s":[0-9.]+,`)

// startAsked is startViewed with a watch above the nodes, a session that was killed and a node that was
// deleted.
func startAsked(t *testing.T) *viewed {
	v := startViewed(t)
	if _, err := v.owner.Do(jute.OpAddWatch, &jute.AddWatchRequest{Path: []byte("/"), Mode: jute.AddWatchPersistentRecursive}); err != nil {
		t.Fatal(err)
	}
	gone := v.Connect(viewTimeout, v.Followers()[0])
	if _, err := gone.Create("/gone", nil, jute.Ephemeral); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Post[api.End](t.Context(), v.Operator(v.leader), "sessions/"+gone.Session().String()+"/kill", struct{}{}); err != nil {
		t.Fatal(err)
	}
	v.Wait("its client to be told", viewDeadline, func() bool { return gone.Err() != nil })
	v.Equal()
	return v
}

// Every member has the same reply to every request over HTTP, to the byte.
func TestHTTPFromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startAsked(t)
		for _, question := range append(v.questions(), "status", "buckets") {
			first := asText(t, v.fullReply(1, question))
			if strings.Contains(first, `"silent":[{`) || len(first) < len(`{"items":[{}]}`) {
				t.Errorf("%s: %s", question, first)
			}
			for _, at := range []uint32{2, 3} {
				if got := asText(t, v.fullReply(at, question)); got != first {
					t.Errorf("%s: member %d answers\n%s\nand member 1\n%s", question, at, got, first)
				}
			}
		}
	})
}

// followNext waits until the others follow one leader other than gone. A member that does not reply is named if it
// leads, so replies before and after a change of the leader differ.
func (v *viewed) followNext(gone uint32, others []uint32) {
	v.t.Helper()
	v.Wait("the others to follow one leader", (syncLimit+3)*viewDeadline, func() bool {
		var known []uint32
		for _, id := range others {
			m, err := v.Member(id).View().Members(v.t.Context())
			if err != nil {
				v.t.Fatal(err)
			}
			known = append(known, m.Leader)
		}
		return known[0] == known[1] && known[0] != 0 && known[0] != gone
	})
}

// While one member is down, stopped or cut off, the others have the same reply to every request, within the deadline.
// The reply names that member wherever it may have an entry.
func TestHTTPWithoutOneMember(t *testing.T) {
	for _, tt := range withoutOne {
		for _, leads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, leads=%t", tt.name, leads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := startAsked(t)
					gone := v.leader
					if !leads {
						gone = v.Followers()[0]
					}
					tt.do(v.Ensemble, gone)
					others := slices.DeleteFunc(v.IDs(), func(id uint32) bool { return id == gone })
					v.followNext(gone, others)
					named := fmt.Sprintf(`"silent":[{"member":%d}]`, gone)
					for _, question := range v.questions() {
						one, other := asText(t, v.fullReply(others[0], question)), asText(t, v.fullReply(others[1], question))
						if one != other {
							t.Errorf("%s: member %d answers\n%s\nand member %d\n%s", question, others[0], one, others[1], other)
						}
						if (question == "connections" || question == "sessions") && !strings.Contains(one, named) {
							t.Errorf("%s: member %d is not named: %s", question, gone, one)
						}
					}
					for _, at := range others {
						if text := asText(t, v.fullReply(at, "status")); !strings.Contains(text, named) {
							t.Errorf("the status that member %d shows does not name member %d: %s", at, gone, text)
						}
					}
				})
			})
		}
	}
}

// journals are the members' logs.
type journals struct {
	mu   sync.Mutex
	text map[uint32]*bytes.Buffer
}

// of returns a logger for a member.
func (j *journals) of(id uint32) *slog.Logger {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text == nil {
		j.text = map[uint32]*bytes.Buffer{}
	}
	j.text[id] = new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(journal{j, id}, nil))
}

// audit returns the audit lines of a member, without the time.
func (j *journals) audit(id uint32) (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text[id].String()) {
		if _, rest, ok := strings.Cut(line, "msg=audit "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// journal is the log of one member.
type journal struct {
	*journals
	id uint32
}

func (j journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text[j.id].Write(b)
}

// An operator ends a session over HTTP, through any member. Within a tick it is gone on every member, and its client is
// notified. The audit log of the member that got the request has one line, and every member shows the end with the
// operator.
func TestKillOverHTTP(t *testing.T) {
	for _, through := range []string{"leader", "own member", "other follower"} {
		t.Run(through, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs journals
				e := cluster.Start(t, 3, cluster.Options{HTTP: true, Logger: logs.of})
				leader := e.Ready()
				e.Joined()
				own, other := e.Followers()[0], e.Followers()[1]
				asked := map[string]uint32{"leader": leader, "own member": own, "other follower": other}[through]
				victim, bystander := e.Connect(20*tick, own), e.Connect(20*tick, own)
				if _, err := victim.Create("/held", nil, jute.Ephemeral); err != nil {
					t.Fatal(err)
				}
				id, begun := victim.Session().String(), time.Now()
				end, err := api.Post[api.End](t.Context(), e.Operator(asked), "sessions/"+id+"/kill", struct{}{})
				if err != nil || end.ID != id || end.State != "ended" || end.Reason != "killed" || end.EphemeralCount != 1 ||
					end.MemberID != own || end.LeaderID != leader {
					t.Fatalf("%+v, %v", end, err)
				}
				if !strings.HasPrefix(end.EndedBy, "super from 127.0.0.1:") {
					t.Errorf("by %q", end.EndedBy)
				}
				e.Wait("the end on every member", tick-time.Since(begun), func() bool {
					return !slices.ContainsFunc(e.IDs(), func(at uint32) bool { return !shows(t, e, at, end) })
				})
				e.Wait("the client to be told", tick-time.Since(begun), func() bool { return victim.Err() != nil })
				if bystander.Disconnects() != 0 {
					t.Error("another client lost its connection")
				}
				_, from, _ := strings.Cut(end.EndedBy, " from ")
				for _, at := range e.IDs() {
					want := []string(nil)
					if at == asked {
						want = []string{fmt.Sprintf(`member=%d action="kill session" target=%s by=super from=%s outcome=done`, at, id, from)}
					}
					if got := logs.audit(at); !slices.Equal(got, want) {
						t.Errorf("the audit log of member %d is %q, want %q", at, got, want)
					}
				}
				_, err = api.Post[api.End](t.Context(), e.Operator(asked), "sessions/"+id+"/kill", struct{}{})
				if refused, ok := errors.AsType[*api.Error](err); !ok || refused.Status != 404 {
					t.Errorf("killed again: %v", err)
				}
			})
		})
	}
}

// shows reports whether a member shows that the session has ended in this way, and no session.
func shows(t *testing.T, e *cluster.Ensemble, at uint32, end api.End) bool {
	t.Helper()
	ends, err := api.Get[api.List[api.End]](t.Context(), e.Operator(at), "ends", url.Values{"session": {end.ID}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Get[api.OneSession](t.Context(), e.Operator(at), "sessions/"+end.ID, nil)
	refused, ok := errors.AsType[*api.Error](err)
	return len(ends.Items) == 1 && ends.Items[0] == end && ok && refused.Status == 404
}

// A kill that cannot be carried out in time has a status for the possible outcomes, and its line in the audit log.
func TestKillOverHTTPFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		held   bool // the kill is on its way to the log when the member is cut off
		status int
		want   string
		audit  string
	}{
		{"cut off before", false, 503, "no leader has replied", "failed"},
		{"cut off meanwhile", true, 504, "may still be made", "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs journals
				e := cluster.Start(t, 3, cluster.Options{HTTP: true, Logger: logs.of})
				leader := e.Ready()
				e.Joined()
				a, b := e.Followers()[0], e.Followers()[1]
				c := e.Connect(20*tick, a)
				if tt.held {
					e.Gate(leader).Hold()
				} else {
					e.Isolate(b)
				}
				done := make(chan error, 1)
				go func() {
					_, err := api.Post[api.End](t.Context(), e.Operator(b), "sessions/"+c.Session().String()+"/kill", struct{}{})
					done <- err
				}()
				if tt.held {
					e.Wait("the entry to be held", tick, func() bool { return e.Gate(leader).Waiting() > 0 })
					e.Isolate(b)
				}
				err := <-done
				if refused, ok := errors.AsType[*api.Error](err); !ok || refused.Status != tt.status || !strings.Contains(refused.Text, tt.want) {
					t.Errorf("%v, want %d and %q", err, tt.status, tt.want)
				}
				if got := logs.audit(b); len(got) != 1 || !strings.Contains(got[0], `outcome="`+tt.audit+`: kill session`) ||
					!strings.Contains(got[0], tt.want) {
					t.Errorf("the audit log is %q", got)
				}
				e.Gate(leader).Release()
				e.Rejoin(b)
				e.Healed()
				e.Equal()
			})
		})
	}
}
