package member

import (
	"testing"
	"time"

	"rollcall/quorum/disk"
)

// A disk that was away is back when it has written everything, or when its writes are short for a while, although a load leaves
// something in the queue at every check. One that writes once in a while is not back.
func TestDiskReturns(t *testing.T) {
	const limit, step = 3 * time.Second, 3 * time.Second / stallChecksPerLimit
	var r diskReturn
	if r.isBack(disk.QueueDelay{Write: 30 * time.Second, Bytes: 1}, limit) {
		t.Error("back while it hangs")
	}
	if !r.isBack(disk.QueueDelay{}, limit) {
		t.Error("not back although nothing waits")
	}
	r = diskReturn{}
	checks := 0
	for busy := (disk.QueueDelay{Write: step / 2, Bytes: 1 << 20}); !r.isBack(busy, limit); checks++ {
		if checks > 2*stallChecksPerLimit {
			t.Fatal("never back under a steady load")
		}
	}
	if checks < stallChecksPerLimit/2 {
		t.Errorf("back after %d checks", checks)
	}
	r = diskReturn{}
	for i := range 10 * stallChecksPerLimit {
		if r.isBack(disk.QueueDelay{Write: time.Duration(i%stallChecksPerLimit+1) * step, Bytes: 1}, limit) {
			t.Fatal("back although each write takes a stall limit")
		}
	}
}
