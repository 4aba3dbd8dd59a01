package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/lab/simulated"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// operatorLimit is the time for which an operator of a schedule repeats one request to the members.
const operatorLimit = time.Minute

// operators are those who do something to a schedule's ensemble besides its writers: operators who kill a session or make a backup, and
// readers who come to members without a leader.
type operators struct {
	sync.WaitGroup
	victim  *cluster.Client // whose session is killed; nil: none is
	backups chan saved      // that were made
	readers chan bool       // for each reader, whether a member served it
}

// saved is a backup with what it must contain.
type saved struct {
	file []byte
	told []int64 // by writer: how many outcomes it knew before the backup began
}

// maxOperated is the largest number of faults of a plan that are operators' requests.
const maxOperated = 100

func newOperators() *operators {
	return &operators{backups: make(chan saved, maxOperated), readers: make(chan bool, maxOperated)}
}

// includes reports whether a plan has faults of a kind.
func includes(p cluster.Plan, kinds ...cluster.Kind) bool {
	return slices.ContainsFunc(p, func(f cluster.Fault) bool { return slices.Contains(kinds, f.Kind) })
}

// greet opens the session that is to be killed, if the plan kills one.
func (r *run) greet() {
	if !includes(r.plan, cluster.Expel) {
		return
	}
	r.operators.victim = r.Connect(sessionTimeout)
	if _, err := r.operators.victim.Create("/victim", nil, jute.Ephemeral); err != nil {
		r.Fatal(err)
	}
}

// operate does the part of a fault that is not the ensemble's.
func (r *run) operate(p cluster.Played) {
	switch p.Kind {
	case cluster.Expel:
		r.operators.Go(func() { r.expel(p.Hit) })
	case cluster.Backup:
		r.operators.Go(func() { r.save(p.Hit) })
	case cluster.Forsake:
		m := r.Member(p.Hit)
		r.operators.Go(func() {
			served, err := r.ReadOnly(p.Hit, m, r.writers[0].shared, p.For)
			if err != nil {
				r.Error(err)
			}
			r.operators.readers <- served
		})
	}
}

// insist calls ask for the members in turn, beginning with first, until ask returns nil.
func (r *run) insist(what string, first uint32, ids []uint32, ask func(ctx context.Context, at uint32) error) {
	begun := time.Now()
	for i := slices.Index(ids, first); ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := ask(ctx, ids[i%len(ids)])
		cancel()
		switch {
		case err == nil:
			return
		case time.Since(begun) > operatorLimit:
			r.Errorf("%s: %v after %v", what, err, operatorLimit)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// expel kills the session of the victim.
func (r *run) expel(first uint32) {
	path := "sessions/" + r.operators.victim.Session().String() + "/kill"
	r.insist("kill a session", first, r.ids, func(ctx context.Context, at uint32) error {
		_, err := api.Post[api.End](ctx, r.Operator(at), path, struct{}{})
		if refused, ok := errors.AsType[*api.Error](err); ok && refused.Status == 404 {
			return nil // an attempt of unknown outcome has done it
		}
		return err
	})
}

// save makes a backup.
func (r *run) save(first uint32) {
	r.insist("make a backup", first, r.ids, func(ctx context.Context, at uint32) error {
		var s saved
		for _, w := range r.writers {
			s.told = append(s.told, w.told.Load())
		}
		var b bytes.Buffer
		err := r.Operator(at).GetStream(ctx, "backup", url.Values{"rate": {"1"}}, func(from io.Reader) error {
			_, err := b.ReadFrom(from)
			return err
		})
		if err != nil {
			return err
		}
		head, _, err := backup.Verify(bytes.NewReader(b.Bytes()))
		if err == nil && !head.Confirmed {
			err = errors.New("no leader has confirmed it")
		}
		if err == nil {
			s.file = b.Bytes()
			r.operators.backups <- s
		}
		return err
	})
}

// operated waits for the operators, and checks their results.
func (r *run) operated() {
	r.operators.Wait()
	close(r.operators.backups)
	close(r.operators.readers)
	for served := range r.operators.readers {
		if served {
			r.sum.readers.Add(1)
		}
	}
	victim := r.operators.victim
	if victim != nil && slices.ContainsFunc(r.faulted, func(p cluster.Played) bool { return p.Kind == cluster.Expel }) {
		r.Wait("the client of the killed session to be told", 30*time.Second, func() bool { return victim.Err() != nil })
		if r.lives(r.Leader(), victim.Session()) {
			r.Errorf("session %v lives, and an operator has killed it", victim.Session())
		}
		r.sum.expelled.Add(1)
	}
}

// restored checks the backups: a new ensemble that begins with one has every write that was acknowledged before the
// backup began, and none twice.
func (r *run) restored() {
	for s := range r.operators.backups {
		from, err := member.ReadForRestore(func(v znode.ImageVisitor) error {
			_, _, err := backup.Read(bytes.NewReader(s.file), v)
			return err
		})
		if err != nil {
			r.Fatalf("restore a backup: %v", err)
		}
		disks := map[uint32]*simulated.Disk{1: cluster.RestoredDisk(r.T, 1, from)}
		e := cluster.Start(r.T, 3, cluster.Options{Logger: logger(), Reconfig: true, Disks: disks})
		e.Ready()
		e.Equal()
		for i, w := range r.writers {
			w.restored(r.T, e.Member(2).State(), s.told[i])
		}
		r.sum.restored.Add(1)
	}
}

// restored compares a state from a backup with the outcomes that a session knows. It knew the first told of them before
// the backup began.
func (w *writer) restored(t *testing.T, s *znode.State, told int64) {
	t.Helper()
	s.RLock()
	defer s.RUnlock()
	children, _, _ := s.Children([]byte(w.dir), nil, nil)
	present := map[int]int{}
	for child := range children.All() {
		data, _, _ := s.GetData([]byte(w.dir+"/"+child), nil, nil)
		i, err := strconv.Atoi(string(data))
		if err != nil {
			t.Errorf("restored: %s/%s: %v", w.dir, child, err)
		}
		present[i]++
	}
	for i := range w.n {
		switch {
		case w.acked[i] && int64(i) < told && present[i] != 1:
			t.Errorf("restored: %s: write %d, acknowledged before the backup, is there %d times", w.dir, i, present[i])
		case present[i] > 1:
			t.Errorf("restored: %s: write %d is there %d times", w.dir, i, present[i])
		}
	}
}
