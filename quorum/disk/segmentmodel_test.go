package disk

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// modelSegment is the limit of a segment's size in the model's test, in bytes: some tens of entries.
const modelSegment = 8 << 10

// logModel is the expected contents of a log.
type logModel struct {
	entries     map[uint64]*raft.Log
	first, last uint64 // 0: it is empty
}

func (m logModel) clone() logModel {
	m.entries = maps.Clone(m.entries)
	return m
}

func (m *logModel) store(logs []*raft.Log) {
	for _, e := range logs {
		m.entries[e.Index] = e
	}
	if m.last = logs[len(logs)-1].Index; m.first == 0 {
		m.first = logs[0].Index
	}
}

func (m *logModel) remove(first, last uint64) {
	for i := first; i <= last; i++ {
		delete(m.entries, i)
	}
	switch {
	case first <= m.first && last >= m.last:
		m.first, m.last = 0, 0
	case first <= m.first:
		m.first = max(m.first, last+1)
	default:
		m.last = min(m.last, first-1)
	}
}

// check returns an error unless the log has what the model has.
func (m logModel) check(l *segmentLog) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if first != m.first || last != m.last {
		return fmt.Errorf("the log is %d to %d, want %d to %d", first, last, m.first, m.last)
	}
	for i, want := range m.entries {
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil {
			return err
		}
		if e.Data == nil {
			e.Data = []byte{}
		}
		if !reflect.DeepEqual(&e, want) {
			return fmt.Errorf("entry %d is %v, want %v", i, e, *want)
		}
	}
	return nil
}

// modelRun is a log and its model.
type modelRun struct {
	*rapid.T
	dir   string
	log   *segmentLog
	model logModel
	seed  byte // of the next entry's data, which so differ from those of an entry that was deleted
}

func (r *modelRun) open() {
	var err error
	if r.log, err = openSegmentLog(r.dir, modelSegment, logOpening{}, hclog.NewNullLogger()); err != nil {
		r.Fatal(err)
	}
}

// step changes the log and the model.
func (r *modelRun) step() {
	m := &r.model
	switch what := rapid.IntRange(0, 9).Draw(r.T, "step"); {
	case m.last == 0 || what < 6:
		next := m.last + 1
		if m.last == 0 {
			next = rapid.Uint64Range(1, 100).Draw(r.T, "first index")
		}
		var logs []*raft.Log
		for i := range rapid.Uint64Range(1, 5).Draw(r.T, "entries") {
			size := rapid.SampledFrom([]int{0, 1, 7, 100, 500, 1000, 3000, 9000}).Draw(r.T, "size")
			e := testLog(next+i, 0)
			r.seed++
			if e.Data = bytes.Repeat([]byte{r.seed}, size); r.seed%3 == 0 {
				clear(e.Data) // as sectors that are lost
			}
			logs = append(logs, e)
		}
		m.store(logs)
		r.must(r.log.StoreLogs(logs))
	case what == 6:
		to := rapid.Uint64Range(m.first, m.last).Draw(r.T, "front")
		from := m.first
		m.remove(from, to)
		r.must(r.log.DeleteRange(from, to))
	case what == 7:
		from, to := rapid.Uint64Range(m.first, m.last).Draw(r.T, "end"), m.last
		m.remove(from, to)
		r.must(r.log.DeleteRange(from, to))
	case what == 8:
		to := m.last
		m.remove(0, to)
		r.must(r.log.DeleteRange(0, to))
	default:
		r.must(r.log.Close())
		r.open()
	}
	r.log.remover.waitUntilEmpty()
}

func (r *modelRun) must(err error) {
	if err != nil {
		r.Fatal(err)
	}
}

// files returns the contents of the log's files.
func (r *modelRun) files() map[string]string {
	files := map[string]string{}
	for _, path := range filesIn(r.dir) {
		b, err := os.ReadFile(path)
		r.must(err)
		files[filepath.Base(path)] = string(b)
	}
	return files
}

// loseDuring makes the files those that a loss of power may leave between two states of the log. It reports whether the
// later state is certain, and whether the earlier one is.
func (r *modelRun) loseDuring(before, after map[string]string) (later, earlier bool) {
	coin := rapid.Bool()
	left, whole := maps.Clone(before), true
	fresh := slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(name string) bool { _, old := before[name]; return !old })
	if fresh && coin.Draw(r.T, "no name") {
		left["9"+segmentSuffix+tmpSuffix] = "half"
		r.put(left)
		return false, true
	}
	sector := rapid.SampledFrom([]int{512, 4096}).Draw(r.T, "sector")
	for _, name := range slices.Sorted(maps.Keys(after)) {
		now := after[name]
		was, old := before[name]
		if name == logMarkName || old && was == now {
			continue
		}
		if !old {
			was = now[:segmentHeaderSize] + string(make([]byte, len(now)-segmentHeaderSize))
		}
		left[name] = r.mix(was, now, sector)
		whole = whole && left[name] == now
	}
	if whole {
		for name, was := range before {
			switch _, still := after[name]; {
			case still || strings.HasSuffix(name, removedSuffix):
			case coin.Draw(r.T, "gone"):
				delete(left, name)
			case coin.Draw(r.T, "renamed"):
				delete(left, name)
				left[name+removedSuffix] = was[:len(was)/2]
			}
		}
		if coin.Draw(r.T, "mark") {
			left[logMarkName] = after[logMarkName]
		}
	}
	r.put(left)
	return whole, false
}

// mix returns now with some sectors of was.
func (r *modelRun) mix(was, now string, sector int) string {
	switch rapid.IntRange(0, 3).Draw(r.T, "kept") {
	case 0:
		return was
	case 1:
		return now
	}
	b := []byte(was)
	for at := 0; at < len(b); at += sector {
		end := min(at+sector, len(b))
		if was[at:end] != now[at:end] && rapid.Bool().Draw(r.T, "sector is kept") {
			copy(b[at:], now[at:end])
		}
	}
	return string(b)
}

func (r *modelRun) put(files map[string]string) {
	r.must(os.RemoveAll(r.dir))
	r.must(os.Mkdir(r.dir, dirMode))
	for name, text := range files {
		r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), fileMode))
	}
}

// A log has what a map has, whatever is stored and deleted, after each start, and after each loss of power: then it has what it
// had before the step, or after it.
func TestSegmentLogModel(t *testing.T) {
	top := t.TempDir()
	runs, cuts := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		r := &modelRun{T: rt, dir: filepath.Join(top, fmt.Sprint(runs)), model: logModel{entries: map[uint64]*raft.Log{}}}
		r.open()
		defer func() {
			if r.log != nil {
				_ = r.log.Close() // it may be closed
			}
			_ = os.RemoveAll(r.dir)
		}()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			loses := rapid.IntRange(0, 3).Draw(rt, "power") == 0
			before, was := map[string]string(nil), r.model
			if loses {
				before, was = r.files(), r.model.clone()
			}
			r.step()
			if loses {
				cuts++
				after := r.files()
				r.must(r.log.Close())
				later, earlier := r.loseDuring(before, after)
				r.open()
				if err := was.check(r.log); err == nil && !later {
					r.model = was
				} else if earlier {
					rt.Fatalf("the step has not begun: %v", err)
				}
			}
			if err := r.model.check(r.log); err != nil {
				rt.Fatal(err)
			}
		}
	})
	t.Logf("%d logs, %d losses of power", runs, cuts)
}
