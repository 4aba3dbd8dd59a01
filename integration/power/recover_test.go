package power

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/config"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/member"
	"rollcall/quorum/disk"
)

// raisedTerms is by how much a recovery raises the term at least.
const raisedTerms = 1 << 16

// survivor is a member of three, of which the two others are lost, and what rollcall recover needs.
type survivor struct {
	id      uint32
	member  member.Server
	data    string // its directory, as it was when it was killed
	dir     string // has its directory while the command runs
	config  string // zoo.cfg, whose list has this member alone
	d       *recorded
	before  recovery
	servers string // the server lines from now on, as the directory names them
}

// recovery describes a survivor's directory as a start finds it.
type recovery struct {
	digest   uint64 // of the state
	term     uint64
	ensemble string
	alone    bool   // the disk is the only one in raft's configuration
	servers  string // for which the directory was made
}

// survivors returns two of three members that were killed.
func survivors(t *testing.T) (all []*survivor) {
	t.Helper()
	e := process.StartEnsemble(t, process.Config{
		Size: 3, Tick: tick, Binary: rollcall, Lines: "maxClientCnxns=0\nsnapCount=40\n",
	})
	l := startLoad(t, &recorder{}, e.Members, 1)
	l.await(t, 70)
	l.stop()
	e.KillAll()
	if !endsInEntries(t, e.Members[0].Data) {
		return survivors(t) // a recovery writes these entries anew, and the tests look at that
	}
	for _, m := range e.Members[:2] {
		_, line, _ := strings.Cut(m.Line, "=")
		parts := strings.Split(line, ":")
		self := member.Server{ID: uint32(m.ID), GrpcAddr: parts[0] + ":" + parts[1], RaftAddr: parts[0] + ":" + parts[2]}
		s := &survivor{
			id: self.ID, member: self, data: m.Data, dir: t.TempDir(), config: filepath.Join(t.TempDir(), "zoo.cfg"),
			servers: strings.Join(member.ServerLines([]member.Server{self}), " "),
		}
		writeFile(t, s.config, fmt.Sprintf("tickTime=1000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=1\nadmin.enableServer=false\nstandaloneEnabled=false\n%s\n", filepath.Join(s.dir, "data"), m.Line))
		s.d = (&recorder{}).record(t, rollcall, s.dir, m.ID)
		s.reset(t)
		var err error
		if s.before, err = s.read(s.dir); err != nil {
			t.Fatal(err)
		}
		if s.before.alone || s.before.servers == s.servers {
			t.Fatalf("the survivor has %+v before the recovery", s.before)
		}
		all = append(all, s)
	}
	return all
}

// endsInEntries reports whether the last segment of a log has an entry. It has none if the segment before it has just
// become full.
func endsInEntries(t *testing.T, data string) bool {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(data, "rollcall", "log", "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%s has the segments %v: %v", data, segments, err)
	}
	content, err := os.ReadFile(slices.Max(segments))
	if err != nil {
		t.Fatal(err)
	}
	const header = 56 // bytes, of a segment
	return slices.ContainsFunc(content[min(header, len(content)):], func(b byte) bool { return b != 0 })
}

// reset gives the survivor the directory that it had when it was killed.
func (s *survivor) reset(t *testing.T) {
	t.Helper()
	data := filepath.Join(s.dir, "data")
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(s.data))); err != nil {
		t.Fatal(err)
	}
	s.d.format(t)
}

// run runs the command on the directory as it was, with a fault at a place of its calls.
func (s *survivor) run(t *testing.T, at *place) (string, error) {
	t.Helper()
	s.reset(t)
	s.d.setRefusal(at.refuses)
	defer s.d.setRefusal(nil)
	return output(t, s.d.Binary, s.d.Env, "recover", "--yes", "--other-servers", s.config)
}

// read opens a survivor's directory in dir as a start does.
func (s *survivor) read(dir string) (r recovery, err error) {
	d, err := disk.Open(disk.Config{
		MemberID: s.id, ServerList: []string{s.servers}, DataDir: filepath.Join(dir, "data"),
		SegmentBytes: 128 << 10, RaftRunning: func() bool { return false }, Logger: slog.New(slog.DiscardHandler), RaftLogger: hclog.NewNullLogger(),
		StallLimit: config.DefaultStallLimit,
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.RepairLog(verify); err != nil {
		return r, err
	}
	var k kept
	if err := k.replay(d); err != nil {
		return r, err
	}
	ensemble, err := d.Stable().Value([]byte("RollcallEnsemble"))
	if err != nil {
		return r, err
	}
	configuration, err := configurationOf(d)
	if err != nil {
		return r, err
	}
	r = recovery{digest: k.state.Digest(), ensemble: string(ensemble), servers: strings.Join(d.ServerList(), " ")}
	r.alone = len(configuration.Servers) == 1 && strings.Contains(string(configuration.Servers[0].ID), d.ID().String())
	r.term, err = d.Stable().Term()
	return r, err
}

// configurationOf returns the configuration with which raft would start: the newest snapshot's, or a later entry's.
func configurationOf(d *disk.Data) (c raft.Configuration, err error) {
	list, err := d.Snapshots().List()
	if err != nil {
		return c, err
	}
	next := uint64(1)
	if len(list) > 0 {
		c, next = list[0].Configuration, list[0].Index+1
	}
	last, err := d.Log().LastIndex()
	if err != nil {
		return c, err
	}
	for ; next <= last; next++ {
		var l raft.Log
		if err := d.Log().GetLog(next, &l); err != nil {
			return c, err
		}
		if l.Type == raft.LogConfiguration {
			c = raft.DecodeConfiguration(l.Data)
		}
	}
	return c, nil
}

// judge checks the directory that the command has left in dir. The state is unchanged. The disk is alone in raft's
// configuration only if the data belong to another ensemble in a later term. A command that is done leaves it alone, in
// a directory for the new list.
func (s *survivor) judge(dir string, done bool) error {
	now, err := s.read(dir)
	switch {
	case err != nil:
		return fmt.Errorf("a start refuses: %w", err)
	case now.digest != s.before.digest:
		return fmt.Errorf("the state has the digest %x, and had %x", now.digest, s.before.digest)
	case now.term != s.before.term && now.term < s.before.term+raisedTerms:
		return fmt.Errorf("it is in term %d, and was in %d", now.term, s.before.term)
	case now.alone && now.term == s.before.term:
		return fmt.Errorf("it votes alone, and in term %d of the members that are lost", now.term)
	case now.alone && now.ensemble == s.before.ensemble:
		return errors.New("it votes alone in the ensemble of the members that are lost")
	case done && (!now.alone || now.servers != s.servers):
		return fmt.Errorf("the command has succeeded, and the disk is alone: %t; made for %q, want %q", now.alone, now.servers, s.servers)
	}
	return nil
}

// repeat recovers what is left in dir once more.
func (s *survivor) repeat(dir string) error {
	if err := member.Recover(member.RecoverConfig{ID: s.id, Servers: []member.Server{s.member}, Dir: filepath.Join(dir, "data")}); err != nil {
		return fmt.Errorf("the recovery cannot be repeated: %w", err)
	}
	if err := s.judge(dir, true); err != nil {
		return fmt.Errorf("after the recovery was repeated: %w", err)
	}
	return nil
}

// recoveryClasses are the syncs of a recovery that a loss of power needs.
var recoveryClasses = []string{
	"data/rollcall",
	"data/rollcall/identity.json.tmp",
	"data/rollcall/log",
	"data/rollcall/log/segment, before it has its name",
	"data/rollcall/raft.db, before it does",
	"data/rollcall/snapshots",
	"data/rollcall/snapshots/#-#-#.tmp",
	"data/rollcall/snapshots/#-#-#.tmp/meta.json.tmp",
	"data/rollcall/snapshots/#-#-#.tmp/state.bin",
}

// needed are the syncs of a recovery by their classes. Syncs of older entries of the log are left out: these were on the
// disk.
func needed(changes []change) map[string][]int {
	syncs := syncsOf(changes)
	delete(syncs, "data/rollcall/log/segment, later")
	delete(syncs, "data/rollcall/log/durable")
	delete(syncs, "data/rollcall/log, "+shortened) // the command has ended before
	return syncs
}

// repeatEvery is the number of places per place at which the recovery is repeated. A repeat takes ten times as long as
// reading the directory.
const repeatEvery = 7

// A survivor that loses its power during a recovery has lost nothing, and is alone only in a new ensemble. The recovery can be
// repeated. One that has succeeded stays.
func TestRecoverLosesPower(t *testing.T) {
	needs.Check(t, needs.Usual)
	for _, s := range survivors(t) {
		t.Run(fmt.Sprintf("member %d", s.id), func(t *testing.T) {
			if out, err := s.run(t, &place{recorded: s.d}); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			changes := s.d.recorder.all()
			changes = changes[lastFormat(changes):]
			survives := func(place int, v *volume, o *outage) error {
				return onDisk(t, v, o, func(dir string) error { return s.judge(dir, place == len(changes)) })
			}
			repeats := func(place int, v *volume, o *outage) error {
				return onDisk(t, v, o, func(dir string) error {
					err := s.judge(dir, place == len(changes))
					if err == nil && place%repeatEvery == 0 {
						err = s.repeat(dir)
					}
					return err
				})
			}
			tried := losesPowerEverywhere(t, changes, 1, repeats)
			fmt.Printf("power: %s: %d outages at %d places\n", t.Name(), tried, len(changes))
			classes := slices.Sorted(slices.Values(recoveryClasses))
			t.Run("syncs", func(t *testing.T) { needsSyncs(t, changes, needed(changes), classes, survives) })
		})
	}
}

// lastFormat returns the place of the last format.
func lastFormat(changes []change) int {
	place := len(changes) - 1
	for changes[place].kind != format {
		place--
	}
	return place
}

// A recovery that is killed, or finds no space, leaves a survivor with all that it had, and can be repeated.
func TestRecoverIsInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	for _, s := range survivors(t) {
		t.Run(fmt.Sprintf("member %d", s.id), func(t *testing.T) {
			all := &place{recorded: s.d}
			if out, err := s.run(t, all); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
			for _, kind := range faults {
				places, failures := sample(rng, all.calls, process.Setting(t, "ROLLCALL_OUTAGES", 1, 3)), 0
				for _, n := range places {
					at := &place{recorded: s.d, fault: kind, n: n}
					out, failed := s.run(t, at)
					if failed != nil {
						failures++
					}
					err := s.judge(s.dir, failed == nil)
					if err == nil && failed != nil {
						err = s.repeat(s.dir)
					}
					if err != nil {
						t.Errorf("%s at call %d of %d, %s; the command: %v; %v\n%s", kind.name, n, all.calls, at.what, failed, err, out)
					}
				}
				fmt.Printf("power: %s: %s at %d of %d calls; the command failed %d times\n", t.Name(), kind.name, len(places), all.calls, failures)
				if failures == 0 {
					t.Errorf("%s: the command never failed", kind.name)
				}
			}
		})
	}
}
