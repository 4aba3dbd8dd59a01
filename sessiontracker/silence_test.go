package sessiontracker

import (
	"testing"
	"time"

	"rollcall/zk/jute"
)

// lived makes a table of an earlier term's sessions, and lets two seconds pass. Session n has owner n, from index 10 n on.
func lived(ids ...jute.SessionID) (table *GlobalTable, now time.Time) {
	table = NewGlobalTable(start, tick, func(yield func(TrackedSession) bool) {
		for _, id := range ids {
			if !yield(TrackedSession{ID: id, Timeout: 30 * time.Second, OwnerMember: uint32(id), OwnerIndex: uint64(id) * 10}) {
				return
			}
		}
	})
	steps(table, 0, 2*time.Second)
	return table, start.Add(2 * time.Second)
}

// silenceOf is the silence of one session.
func silenceOf(id int64, silent, gap time.Duration) Silences {
	return Silences{[]int64{id}, []uint32{uint32(silent / ms)}, []uint32{uint32(gap / ms)}}
}

// A session of an earlier term has what is left of its timeout after the silence that its member knows, but at least a third. Whatever
// was heard in this term counts more. LastHeard has the whole silence, with the time that does not count.
func TestCountSilences(t *testing.T) {
	second := time.Second
	attach := TrackedSession{ID: 1, Timeout: 30 * second, OwnerMember: 1, OwnerIndex: 99}
	tests := []struct {
		name      string
		change    func(table *GlobalTable, now time.Time)
		left, ago time.Duration
	}{
		{"nothing is known", func(*GlobalTable, time.Time) {}, 28 * second, 2 * second},
		{"silent", func(table *GlobalTable, now time.Time) { table.CountSilences(1, 10, now, silenceOf(1, 12*second, 0)) }, 18 * second, 12 * second},
		{"with a gap", func(table *GlobalTable, now time.Time) {
			table.CountSilences(1, 10, now, silenceOf(1, 12*second, 5*second))
		}, 18 * second, 17 * second},
		{"for nearly all of its timeout", func(table *GlobalTable, now time.Time) {
			table.CountSilences(1, 10, now, silenceOf(1, 29*second, second))
		}, 10 * second, 30 * second},
		{"for longer", func(table *GlobalTable, now time.Time) { table.CountSilences(1, 10, now, silenceOf(1, time.Hour, 0)) }, 10 * second, time.Hour},
		{"heard in this term", func(table *GlobalTable, now time.Time) { table.CountSilences(1, 10, now, silenceOf(1, second, 0)) }, 29 * second, second},
		{"another member says so", func(table *GlobalTable, now time.Time) { table.CountSilences(2, 10, now, silenceOf(1, 12*second, 0)) }, 28 * second, 2 * second},
		{"by an earlier owner", func(table *GlobalTable, now time.Time) { table.CountSilences(1, 9, now, silenceOf(1, 12*second, 0)) }, 28 * second, 2 * second},
		{"said twice", func(table *GlobalTable, now time.Time) {
			table.CountSilences(1, 10, now, silenceOf(1, 12*second, 0))
			table.CountSilences(1, 10, now, silenceOf(1, 20*second, 0))
		}, 18 * second, 12 * second},
		{"touched before", func(table *GlobalTable, now time.Time) {
			table.Touch(1, now.Add(-second), 30*second)
			table.CountSilences(1, 10, now, silenceOf(1, 12*second, 0))
		}, 29 * second, second},
		{"touched after", func(table *GlobalTable, now time.Time) {
			table.CountSilences(1, 10, now, silenceOf(1, 12*second, 3*second))
			table.Touch(1, now.Add(-second), 30*second)
		}, 29 * second, second},
		{"attached before", func(table *GlobalTable, now time.Time) {
			table.AttachSession(attach, now)
			table.CountSilences(1, 100, now, silenceOf(1, 12*second, 0))
		}, 30 * second, 0},
		{"its member is lost", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 1, Silent: 12 * second, Through: 10}})
		}, 18 * second, 12 * second},
		{"its member is lost, and back", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 1, Silent: 12 * second, Through: 10}})
			table.CountSilences(1, 10, now, silenceOf(1, 4*second, 0))
		}, 26 * second, 4 * second},
		{"another member is lost", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 2, Silent: 12 * second, Through: 90}})
		}, 28 * second, 2 * second},
		{"an earlier process is lost", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 1, EndedThrough: 10, EndedSilent: 12 * second}})
		}, 18 * second, 12 * second},
		{"its member was given it after it was last heard", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 1, Silent: 12 * second, Through: 9}})
		}, 28 * second, 2 * second},
		{"a process before its owner is lost", func(table *GlobalTable, now time.Time) {
			table.CountLost(now, []LostMember{{Member: 1, EndedThrough: 9, EndedSilent: 12 * second}})
		}, 28 * second, 2 * second},
		{"touched before its member is lost", func(table *GlobalTable, now time.Time) {
			table.Touch(1, now.Add(-second), 30*second)
			table.CountLost(now, []LostMember{{Member: 1, Silent: 12 * second, Through: 10}})
		}, 29 * second, second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, now := lived(1)
			tt.change(table, now)
			got, ok := table.LastHeard(1, now)
			if want := (LastHeard{Ago: tt.ago, TimeLeft: tt.left}); !ok || got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			due := 2*time.Second + tt.left
			if at := steps(table, 2*second, due); at >= 0 {
				t.Errorf("due at %v, with %v left", at, tt.left)
			}
			if at := steps(table, due, due+tick/2); at < 0 {
				t.Errorf("not due half a tick after %v", due)
			}
			if got := table.TakeOverdue(nil, 10); len(got) == 0 || got[0].Deadline != due {
				t.Errorf("took %+v, want a deadline of %v", got, due)
			}
			checkShards(t, table)
		})
	}
}

// Each touch of a batch counts from its own time.
func TestTouchesHaveTheirOwnTimes(t *testing.T) {
	table, now := lived(1, 2)
	touches := Touches{now.Add(-time.Second), []int64{1}, []uint32{30_000}, []uint32{400}}
	table.TouchAll(1, touches, nil)
	if got, _ := table.LastHeard(1, now); got.Ago != 600*ms {
		t.Errorf("heard %v ago, want 600ms", got.Ago)
	}
}

// BenchmarkCountSilences measures a member's silences of n sessions at the start of a term.
func BenchmarkCountSilences(b *testing.B) {
	const n = 1_000_000
	table := NewGlobalTable(start, tick, million(n))
	var s Silences
	for seed := range million(n) {
		if seed.OwnerMember == 1 {
			s.IDs, s.SilentMs, s.GapMs = append(s.IDs, int64(seed.ID)), append(s.SilentMs, 500), append(s.GapMs, 0)
		}
	}
	b.Run("silences", func(b *testing.B) {
		for b.Loop() {
			table.CountSilences(1, 1<<60, start, s)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.IDs)), "ns/session")
	})
	b.Run("lost", func(b *testing.B) {
		for b.Loop() {
			table.CountLost(start, []LostMember{{Member: 2, Silent: time.Millisecond, Through: 1 << 60}})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
	})
}
