package past

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/internal/tokenproof"
	"rollcall/lab/process"
	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/znode"
)

const (
	writes = 1200
	// killEvery is the number of writes between two kills, so that members take several snapshots in one life.
	killEvery = 150
	names     = 7
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(process.Main(m, &rollcall, build)) }

func build(dir string) (string, error) {
	return process.BuildHurried(filepath.Join("..", ".."), dir)
}

// write is an acknowledged write, and what all nodes had after it.
type write struct {
	zxid  int64
	path  string
	nodes map[string]string
}

// world is an ensemble whose members take snapshots often.
type world struct {
	t         *testing.T
	ensemble  *process.Ensemble
	tokenFile string
	done      []write
}

// Members are killed in turn while a client writes, and at the end all at once. Then each member, and each directory after all have
// stopped, has the state after every write that it reaches back to, and lists the changes in their order.
func TestPastUnderKills(t *testing.T) {
	needs.Check(t, needs.Usual)
	w := &world{t: t, tokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(w.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: time.Second,
		Lines: process.AnyHTTP + "snapCount=25\nadmin.tokenFile=" + w.tokenFile + "\n",
	})
	w.writeUnderKills()
	w.ensemble.KillAll()
	for _, m := range w.ensemble.Members {
		w.ensemble.Start(m)
	}
	w.ensemble.Settle()
	w.ensemble.Joined()

	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range w.ensemble.Members {
		w.checkMember(m, r)
	}
	w.checkCommand(w.ensemble.Members[0])
	w.ensemble.StopAll()
	for _, m := range w.ensemble.Members {
		w.checkDirectory(m, r)
	}
}

// writeUnderKills writes, and kills a member now and then. A write whose outcome is not known is repeated with other data.
func (w *world) writeUnderKills() {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer stop()
	c, err := client.Dial(ctx, strings.Join(w.ensemble.ClientAddresses(w.ensemble.Members[0]), ","), client.Config{Timeout: 20 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	nodes := map[string]string{}
	for i := range names {
		path := fmt.Sprintf("/n%d", i)
		if _, _, err := c.Create(ctx, path, nil, client.Persistent); err != nil {
			w.t.Fatal(err)
		}
		nodes[path] = ""
	}
	var killed *process.Member
	for i := range writes {
		if i%killEvery == killEvery/2 {
			killed = w.ensemble.Members[i/killEvery%3]
			killed.Process.Kill()
		}
		if i%killEvery == killEvery-1 && killed != nil {
			w.ensemble.Start(killed)
			w.ensemble.Settle()
			w.ensemble.Joined()
		}
		path, data := fmt.Sprintf("/n%d", i%names), fmt.Sprint("write ", i)
		stat, err := c.Set(ctx, path, []byte(data), client.AnyVersion)
		for err != nil && ctx.Err() == nil { // perhaps it was carried out, and then it is carried out twice
			stat, err = c.Set(ctx, path, []byte(data), client.AnyVersion)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		nodes[path] = data
		w.done = append(w.done, write{int64(stat.Changed), path, maps.Clone(nodes)})
	}
}

// chainsOf returns the parts of the past of a member that runs.
func (w *world) chainsOf(m *process.Member) (chains []past.Chain) {
	w.t.Helper()
	c := w.adminClient(m)
	list, err := api.Get[api.History](w.t.Context(), c, "history", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(list.Damaged) > 0 {
		w.t.Errorf("member %d has damaged files: %v", m.ID, list.Damaged)
	}
	for _, s := range list.Spans {
		w.t.Logf("member %d has entries %d to %d, in %d segments and %d snapshots", m.ID, s.First, s.Last, len(s.Segments), len(s.Snapshots))
		chains = append(chains, past.NewKept(s.Span(), api.HistorySource{Client: c}, nil))
	}
	return chains
}

// adminClient returns a client of a member with an administrator's credentials.
func (w *world) adminClient(m *process.Member) *api.Client {
	w.t.Helper()
	addr, err := m.HTTP()
	if err != nil {
		w.t.Fatal(err)
	}
	return &api.Client{BaseURL: "http://" + addr, HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dialProvingToken}}}
}

const token = "abcdefghijklmnop"

// dialProvingToken opens a connection on which the administrators' token is proved.
func dialProvingToken(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	private, err := tokenproof.ProveMutually(conn, tokenproof.DeriveTokenKey(token))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return private, nil
}

func (w *world) checkMember(m *process.Member, r *rand.Rand) {
	w.t.Helper()
	w.check(fmt.Sprintf("member %d", m.ID), w.chainsOf(m), r)
}

// checkDirectory checks the directory of a member that does not run.
func (w *world) checkDirectory(m *process.Member, r *rand.Rand) {
	w.t.Helper()
	dirs := history.Directories{Data: disk.OwnDirectory(m.Data), Log: disk.OwnDirectory(m.Data)}
	list, err := history.List(dirs, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var chains []past.Chain
	for _, s := range list.Spans {
		chains = append(chains, past.NewKept(s, history.DirectorySource{Directories: dirs}, nil))
	}
	w.check(m.Data, chains, r)
}

// check builds states at some writes from the chains, the oldest first. The newest chain must have the last write, and a writes that a
// chain reaches must have its state.
func (w *world) check(origin string, chains []past.Chain, r *rand.Rand) {
	w.t.Helper()
	if len(chains) == 0 {
		w.t.Fatalf("%s has no past", origin)
	}
	built := 0
	picked := []write{w.done[len(w.done)-1], w.done[len(w.done)-killEvery]}
	for range 12 {
		picked = append(picked, w.done[r.IntN(len(w.done))])
	}
	for i, done := range picked {
		found := false
		for _, c := range slices.Backward(chains) {
			l, err := past.Open(w.t.Context(), c, past.AtZxid(done.zxid))
			if errors.Is(err, past.ErrTooEarly) || errors.Is(err, past.ErrTooLate) {
				continue
			}
			if err != nil {
				w.t.Fatalf("%s: zxid 0x%x: %v", origin, done.zxid, err)
			}
			l.Close()
			w.compare(origin, l.State(), done)
			found = true
			break
		}
		if found {
			built++
		} else if i == 0 {
			w.t.Errorf("%s: the state after the last write, zxid 0x%x, cannot be built", origin, done.zxid)
		}
	}
	w.t.Logf("%s: %d of %d states were built", origin, built, len(picked))
	w.checkChanges(origin, chains[len(chains)-1])
}

func (w *world) compare(origin string, s *znode.State, done write) {
	w.t.Helper()
	s.RLock()
	defer s.RUnlock()
	for path, want := range done.nodes {
		if data, _, code := s.GetData([]byte(path), nil, nil); string(data) != want {
			w.t.Errorf("%s: at zxid 0x%x %s has %q (%v), want %q", origin, done.zxid, path, data, code, want)
		}
	}
}

// checkChanges requires all acknowledged writes of a chain, in order.
func (w *world) checkChanges(origin string, c past.Chain) {
	w.t.Helper()
	l, err := past.OpenOldest(w.t.Context(), c)
	if err != nil {
		w.t.Fatalf("%s: %v", origin, err)
	}
	defer l.Close()
	begun := l.State().Zxid()
	seen := map[int64]string{}
	last := int64(0)
	err = l.Advance(past.Moment{}, func(change *znode.Change) error {
		if change.Zxid < last {
			w.t.Errorf("%s: the change of zxid 0x%x comes after 0x%x", origin, change.Zxid, last)
		}
		last, seen[change.Zxid] = change.Zxid, change.Path
		return nil
	})
	if err != nil {
		w.t.Fatalf("%s: %v", origin, err)
	}
	for _, done := range w.done {
		if done.zxid > begun && seen[done.zxid] != done.path {
			w.t.Errorf("%s: the change of zxid 0x%x is of %q, want %q", origin, done.zxid, seen[done.zxid], done.path)
		}
	}
}

// checkCommand runs a command as an operator does.
func (w *world) checkCommand(m *process.Member) {
	w.t.Helper()
	addr, err := m.HTTP()
	if err != nil {
		w.t.Fatal(err)
	}
	done := w.done[len(w.done)-2]
	out, err := exec.CommandContext(w.t.Context(), rollcall, "changes", "--admin", "http://"+addr, "--token-file", w.tokenFile,
		"--from", fmt.Sprintf("0x%x", done.zxid-1), "--to", fmt.Sprintf("0x%x", done.zxid)).Output()
	if text := string(out); err != nil || strings.Count(text, "\n") != 1 || !strings.Contains(text, fmt.Sprintf("0x%x", done.zxid)) ||
		!strings.Contains(text, done.path) {
		w.t.Errorf("rollcall changes: %v\n%s", err, out)
	}
}
