package znode

import (
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// leave opens a term in which so many bytes are left before the quota of all data is used up. If left is
// negative, so many are used beyond the quota.
func (w *world) leave(left int64) {
	w.t.Helper()
	w.rule(Rules{TTLNodes: true, DataQuota: uint64(w.s().DataUsed() + left)})
}

// Each write that adds bytes is rejected past the quota, to the byte, and all others succeed.
func TestDataQuota(t *testing.T) {
	create := func(op jute.Op, path string, mode jute.CreateMode) func(k *client) Result {
		return func(k *client) Result {
			req := createOp(path, "data", mode, jute.OpenACL)
			if op == jute.OpCreateTTL {
				return k.do(op, jute.CreateTTLRequest{CreateRequest: req, TTL: 5}.Append(nil))
			}
			return k.do(op, req.Append(nil))
		}
	}
	set := func(data string) func(k *client) Result {
		return func(k *client) Result { return k.setData("/old", data, -1) }
	}
	tests := []struct {
		name string
		adds int64 // bytes; not positive: it is never rejected
		run  func(k *client) Result
	}{
		{"create", 6, create(jute.OpCreate, "/a", 0)},
		{"create2", 6, create(jute.OpCreate2, "/a", 0)},
		{"sequential", 16, create(jute.OpCreate, "/a", jute.PersistentSequential)},
		{"ephemeral", 6, create(jute.OpCreate, "/a", jute.Ephemeral)},
		{"container", 6, create(jute.OpCreateContainer, "/a", jute.Container)},
		{"TTL", 6, create(jute.OpCreateTTL, "/a", jute.PersistentWithTTL)},
		{"TTL, sequential", 16, create(jute.OpCreateTTL, "/a", jute.PersistentSequentialWithTTL)},
		{"below another node", 10, create(jute.OpCreate, "/old/a", 0)},
		{"longer data", 2, set("123456")},
		{"data of the same length", 0, set("abcd")},
		{"shorter data", -3, set("a")},
		{"null data", -4, func(k *client) Result {
			return k.do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/old"), Version: -1}.Append(nil))
		}},
		{"delete", -8, func(k *client) Result { return k.delete("/old", -1) }},
		{"list", aclOverhead + entryOverhead + 27, func(k *client) Result { return k.setACL("/old", aclOf(31, "ip", "127.0.0.1"), -1) }},
		{"list that other nodes have", 0, func(k *client) Result { return k.setACL("/old", aclOf(1, "world", "anyone"), -1) }},
		{"list in place of a longer one", 3 - 5, func(k *client) Result {
			return k.auth("digest", "a:123").setACL("/listed", aclOf(31, "digest", "a:1"), -1)
		}},
		{"list of a new node", 6 + aclOverhead + entryOverhead + 27, func(k *client) Result {
			return k.do(jute.OpCreate, createOp("/a", "data", 0, aclOf(31, "ip", "127.0.0.1")).Append(nil))
		}},
		{"delete of the last node with a list", -7 - aclOverhead - entryOverhead - 27, func(k *client) Result { return k.delete("/listed", -1) }},
		{"session", 0, func(k *client) Result { k.w.connect(); return Result{} }},
		{"end of a session", 0, func(k *client) Result { return k.close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, left := range []int64{tt.adds, tt.adds - 1, -1000} {
				w := newWorld(t)
				k := w.connect()
				k.must(k.setData("/", strings.Repeat("x", 1000), -1))
				k.must(k.do(jute.OpCreate, createOp("/old", "1234", 0, jute.OpenACL).Append(nil)))
				k.must(k.do(jute.OpCreate, createOp("/listed", "", 0, aclOf(31, "digest", "a:123")).Append(nil)))
				w.leave(left)
				want, before := jute.OK, w.s().DataUsed()
				if tt.adds > left && tt.adds > 0 {
					want = jute.NoRoom
				}
				if r := tt.run(k); r.Code != want {
					t.Errorf("%d bytes left: %v, want %v", left, r.Code, want)
				}
				added := w.s().DataUsed() - before
				if want != jute.OK && added != 0 || want == jute.OK && added != tt.adds {
					t.Errorf("%d bytes left: %d were added, and the answer is %v", left, added, want)
				}
				checkInvariants(t, w.s())
			}
		})
	}
}

// A multi that does not fit leaves nothing, and one may make the room that it needs. A node that is
// there, and a version that does not match, are answered as without a quota.
func TestDataQuotaInMulti(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0)) // 3 bytes
	w.leave(3)
	for _, tt := range []struct {
		name string
		ops  []jute.MultiOp
		want []string
	}{
		{"too large", []jute.MultiOp{data("/b", "1"), data("/c", "1")}, []string{"-1/0", "-1/-1"}},
		{"no room yet", []jute.MultiOp{data("/b", "1234"), rm("/a", -1)}, []string{"-1/-1", "-1/-2"}},
		{"a set", []jute.MultiOp{put("/a", -1), put("/a", -1), data("/b", "")}, []string{"-1/0", "-1/0", "-1/-1"}},
		{"makes room", []jute.MultiOp{rm("/a", -1), data("/b", "1234")}, []string{"2/0", "1/0"}},
	} {
		before, nodes := w.s().DataUsed(), w.nodeCount()
		if got := outcome(k.multi(tt.ops...)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if failed := strings.HasPrefix(tt.want[0], "-1"); failed && (w.s().DataUsed() != before || w.nodeCount() != nodes) {
			t.Errorf("%s: something is left of it", tt.name)
		}
	}
	w.leave(0)
	for _, tt := range []struct {
		r    Result
		want jute.Code
	}{
		{k.create("/b", 0), jute.NodeExists},
		{k.create("/no/b", 0), jute.NoNode},
		{k.setData("/b", "longer than before", 7), jute.BadVersion},
		{k.setData("/b", "longer than before", -1), jute.NoRoom},
		{w.connect().auth("super", "").create("/d", 0), jute.NoRoom},
	} {
		if tt.r.Code != tt.want {
			t.Errorf("%v, want %v", tt.r.Code, tt.want)
		}
	}
	w.rule(Rules{})
	k.must(k.create("/d", 0))
}

// What counts is in the log alone: not the text of the ensemble, which may differ on a member, and not
// how a member came by its state.
func TestDataQuotaIsTheSameEverywhere(t *testing.T) {
	w := newWorld(t, New(Config{EnsembleText: []byte(strings.Repeat("server ", 100))}))
	k := w.connect()
	k.must(k.create("/a", 0))
	w.leave(5)
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	k.must(k.multi(data("/b", ""), rm("/b", -1)))
	k.multi(put("/a", -1), data("/c", ""), data("/d", ""))
	k.must(k.create("/c", 0))
	if r := k.create("/d", 0); r.Code != jute.NoRoom {
		t.Errorf("%v, want %v", r.Code, jute.NoRoom)
	}
	for i, s := range w.states {
		s.cfg.EnsembleText = []byte(strings.Repeat("server ", 1+100*i))
		if err := s.RestoreSnapshot(strings.NewReader(string(encode(t, s.Snapshot())))); err != nil {
			t.Fatal(err)
		}
	}
	k.must(k.auth("super", "").setData(ConfigPath, strings.Repeat("mine ", 50), -1)) // longer than one text, shorter than the others
	for i, s := range w.states {
		if s.DataUsed() != w.s().DataUsed() || s.Digest() != w.s().Digest() {
			t.Errorf("state %d: %d bytes count, and its digest is %x; want %d and %x", i, s.DataUsed(), s.Digest(), w.s().DataUsed(), w.s().Digest())
		}
	}
}

// A quota of a subtree and the quota of all data hold together.
func TestDataQuotaBesideQuotas(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/q", 0))
	k.setQuota("/q", "countHardLimit=2")
	w.rule(Rules{EnforceQuota: true, DataQuota: uint64(w.s().DataUsed() + 10)})
	k.must(k.create("/q/a", 0)) // 5 bytes
	for path, want := range map[string]jute.Code{"/q/b": jute.QuotaExceeded, "/other": jute.NoRoom} {
		if r := k.create(path, 0); r.Code != want {
			t.Errorf("%s: %v, want %v", path, r.Code, want)
		}
	}
	k.must(k.create("/o", 0))
}
