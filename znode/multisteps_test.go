package znode

import (
	"fmt"
	"testing"

	"rollcall/zk/jute"
)

// manyPuts returns so many writes of one node.
func manyPuts(path string, n int) []jute.MultiOp {
	ops := make([]jute.MultiOp, n)
	for i := range ops {
		ops[i] = put(path, anyVersion)
	}
	return ops
}

// A multi whose operations take more steps than MaxMultiSteps is not run. Quotas, the levels of paths and identities take steps, too. The
// first result has the reason, and the state stays.
func TestMultiStepsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name       string
		identities int // more than its address
		quota      bool
		path       string
		steps      int // of one operation
	}{
		{"plain", 0, false, "/a/b", setDataSteps},
		{"free identities", freeIdentities - 1, false, "/a/b", setDataSteps},
		{"identities", freeIdentities + 9, false, "/a/b", setDataSteps + 10*identitySteps},
		{"quotas", 0, true, "/a", setDataSteps + quotaSteps + levelSteps},
		{"quotas and levels", freeIdentities, true, "/a/b", setDataSteps + quotaSteps + 2*levelSteps + identitySteps},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			for i := range tt.identities {
				k.auth("digest", fmt.Sprintf("u%d:x", i))
			}
			k.must(k.create("/a", 0))
			k.must(k.create("/a/b", 0))
			if tt.quota {
				k.setQuota("/other", "count=3,bytes=-1") // of another subtree
			}
			most := MaxMultiSteps / tt.steps
			for n, want := range map[int]jute.Code{most: jute.OK, most + 1: jute.BadArguments} {
				version := k.stat(tt.path).Version
				r := k.multi(manyPuts(tt.path, n)...)
				if r.Code != jute.OK || len(r.Multi) != n || r.Multi[0].Code != want {
					t.Fatalf("%d writes: %v, %d results, the first %+v, want %v", n, r.Code, len(r.Multi), r.Multi[0], want)
				}
				written := int32(n)
				if want != jute.OK {
					written = 0
					if last := r.Multi[n-1]; last.Op != jute.OpError || last.Code != jute.RuntimeInconsistency {
						t.Errorf("the last result is %+v", last)
					}
				}
				if got := k.stat(tt.path).Version - version; got != written {
					t.Errorf("%d of %d writes were made, want %d", got, n, written)
				}
			}
		})
	}
}

// Checks take no steps for quotas, which they do not touch.
func TestChecksNeedNoQuotaSteps(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.setQuota("/other", "count=3,bytes=-1")
	ops := make([]jute.MultiOp, MaxMultiSteps/checkSteps)
	for i := range ops {
		ops[i] = check("/", anyVersion)
	}
	if r := k.multi(ops...); r.Multi[0].Code != jute.OK {
		t.Errorf("%d checks: %+v", len(ops), r.Multi[0])
	}
}

// A long multi leaves maxFireSteps to its watchers only as far as its operations do not need them.
func TestLongMultisLeaveLessToWatchers(t *testing.T) {
	for n, want := range map[int]int{
		freeMultiSteps / setDataSteps: 0,
		20_000:                        20_000*setDataSteps - freeMultiSteps,
		MaxMultiSteps / setDataSteps:  MaxMultiSteps/setDataSteps*setDataSteps - freeMultiSteps,
	} {
		w := newWorld(t)
		k := w.connect()
		k.must(k.create("/a", 0))
		k.must(k.multi(manyPuts("/a", n)...))
		if got := w.s().watches.entrySteps; got != want {
			t.Errorf("%d writes: %d steps are gone, want %d", n, got, want)
		}
	}
}

// The multi that creates the first quota takes the steps of quotas from there on.
func TestFirstQuotaTakesSteps(t *testing.T) {
	ops := append([]jute.MultiOp{put(quotaPath+"/a"+limitsSuffix, anyVersion)}, manyPuts("/a", 9)...)
	if got, want := multiStepsLeft(ops, 0, false), multiStepsLeft(ops, 0, true); got != want {
		t.Errorf("%d steps are left, want %d as with quotas before", got, want)
	}
	if plain := manyPuts("/a", 9); multiStepsLeft(plain, 0, false) == multiStepsLeft(plain, 0, true) {
		t.Error("quotas take no steps")
	}
}
