package stream

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream that finds no room waits for it. It is resumed once there is room, and may then have the room that it
// requested, even if others have taken some. Small requests need no room.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := opened(t, nil)
		others := o.group.Budget.limit
		resume := func() {
			o.group.Budget.AddBytes(others) // others take the room first
			o.do(func() {
				o.due = false
				if !o.TryClaimBytes(MinAccountChange) {
					t.Error("a stream that has waited gets no room")
				}
			})
			o.group.Budget.AddBytes(-others)
		}
		o.do(func() { o.resume = resume })
		o.group.Budget.AddBytes(others)
		o.do(func() {
			o.due = true
			if !o.TryClaimBytes(MinAccountChange-1) || o.Account.HasRoom(1) || o.TryClaimBytes(MinAccountChange) {
				t.Error("a budget that is spent has room")
			}
		})
		time.Sleep(2 * BudgetCheckInterval)
		synctest.Wait()
		if n := o.resumes(); n != 0 {
			t.Errorf("resumed %d times without room", n)
		}
		o.group.Budget.AddBytes(-others)
		time.Sleep(BudgetCheckInterval)
		synctest.Wait()
		if n := o.resumes(); n != 1 {
			t.Errorf("resumed %d times", n)
		}
	})
}

// The budget counts the bytes that the client has not read, the bytes that wait at the owner, and a
// long frame that is being read. It counts nothing below MinAccountChange, and nothing of a stream that
// has ended.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		used := func(step string, want int64) {
			t.Helper()
			synctest.Wait()
			if n := o.group.Budget.UsedBytes(); n != want {
				t.Errorf("%s: %d bytes are counted, want %d", step, n, want)
			}
		}
		o.do(func() { o.bytes = MinAccountChange - 1; o.UpdateAccount() })
		used("little", 0)
		o.do(func() { o.bytes = MinAccountChange; o.UpdateAccount() })
		used("held", MinAccountChange)
		o.do(func() { o.queue(make([]byte, MinAccountChange-LengthSize)); o.LimitUnread() })
		used("queued", 2*MinAccountChange)
		o.Flush()
		used("under way", 2*MinAccountChange)
		c.expect(strings.Repeat("\x00", MinAccountChange-LengthSize))
		used("taken", MinAccountChange)
		long := []byte{0, 0, 0x80, 0} // 32 KiB, which is too little to count by itself
		_, _ = c.Write(append(long, make([]byte, 20_000)...))
		used("a short frame", MinAccountChange)
		_, _ = c.Write(make([]byte, 1<<15-20_000))
		c.expect(strings.Repeat("\x00", 1<<15))
		_, _ = c.Write(append([]byte{0, 2, 0, 0}, make([]byte, LoopBuffer)...)) // 128 KiB
		used("a long frame", MinAccountChange+1<<17)
		o.Drop(NumReasons)
		used("dropped", 0)
	})
}

// If the budget is overrun, the stream that holds most is dropped, and the log says so.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		o.do(func() {
			o.queue(make([]byte, o.group.Budget.limit))
			o.UpdateAccount()
		})
		_, _ = io.Copy(io.Discard, c)
		if why := o.whyEnded(t); why != OverBudget {
			t.Errorf("ended for reason %d", why)
		}
		synctest.Wait()
		if n := o.group.Budget.UnreportedDrops(); n != 0 {
			t.Errorf("%d dropped streams are not logged", n)
		}
	})
}

// A stream whose client has taken nothing for long goes before the others only if it holds more than an even share.
func TestStalledStreamWithAnEvenShare(t *testing.T) {
	const unit = MinAccountChange
	for _, tt := range []struct {
		stalled int // bytes of stream 0; the others hold five units and one, so an even share is three units
		dropped int // which stream
	}{{3 * unit, 1}, {3*unit + 3, 0}} { // 3 bytes more make the share 1 byte more
		synctest.Test(t, func(t *testing.T) {
			var owners []*owner
			b := NewBudget(16<<20, func() (all []*Stream) {
				for _, o := range owners {
					all = append(all, &o.Stream)
				}
				return all
			}, slog.New(slog.DiscardHandler))
			hold := func(bytes int) {
				o, _ := opened(t, func(cfg *Config) { cfg.Budget = b })
				owners = append(owners, o)
				o.do(func() { o.bytes = bytes; o.UpdateAccount() })
			}
			hold(tt.stalled)
			time.Sleep(MaxBudgetWait + 1)
			hold(5 * unit)
			hold(unit)
			b.dropLargestStreams(1, 0, time.Now(), false)
			synctest.Wait()
			for i, o := range owners {
				if got := len(o.ended) > 0; got != (i == tt.dropped) {
					t.Errorf("the stalled stream holds %d bytes: stream %d is dropped: %t", tt.stalled, i, got)
				}
				o.do(func() { o.bytes = 0; o.UpdateAccount() })
			}
		})
	}
}
