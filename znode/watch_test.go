package znode

import (
	"testing"

	"rollcall/zk/jute"
)

// Cases 195 to 215 and 255 to 257: the events that one-shot watches get.
func TestWatchEvents(t *testing.T) {
	const any = anyVersion
	open := jute.OpenACL
	tests := []struct {
		name  string
		made  []string
		watch func(k *client) []jute.Code
		act   func(k *client)
		want  []string
	}{
		{
			"195", nil, func(k *client) []jute.Code { return []jute.Code{-101 - k.watchExists("/a")} },
			func(k *client) { k.create("/a", 0); k.setData("/a", "", any) },
			[]string{"Created(/a)"},
		},
		{
			"196",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchExists("/a")} },
			func(k *client) { k.setData("/a", "", any); k.setData("/a", "", any) },
			[]string{"Changed(/a)"},
		},
		{
			"197",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchData("/a")} },
			func(k *client) { k.delete("/a", any); k.create("/a", 0) },
			[]string{"Deleted(/a)"},
		},
		{
			"198 199", nil, func(k *client) []jute.Code {
				return []jute.Code{-101 - k.watchData("/a"), -101 - k.watchChildren("/a")}
			},
			func(k *client) { k.create("/a", 0); k.create("/a/b", 0) }, nil,
		},
		{
			"200",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/a")} },
			func(k *client) { k.create("/a/b", 0); k.create("/a/c", 0) },
			[]string{"Children(/a)"},
		},
		{
			"201",
			[]string{"/a", "/a/b"},
			func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/a")} },
			func(k *client) { k.setData("/a", "", any); k.setData("/a/b", "", any); k.create("/a/b/c", 0) }, nil,
		},
		{
			"202",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/a")} },
			func(k *client) { k.delete("/a", any) },
			[]string{"Deleted(/a)"},
		},
		{
			"203",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchData("/a"), k.watchChildren("/a")} },
			func(k *client) { k.delete("/a", any); k.create("/a", 0); k.create("/a/b", 0); k.setData("/a", "", any) },
			[]string{"Deleted(/a)"},
		},
		{
			"204",
			[]string{"/a", "/a/b"},
			func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/a"), k.watchData("/a/b")} },
			func(k *client) { k.delete("/a/b", any) },
			[]string{"Deleted(/a/b)", "Children(/a)"},
		},
		{"205", []string{"/a"}, func(k *client) []jute.Code {
			return []jute.Code{k.watchExists("/a"), k.watchData("/a"), k.watchData("/a")}
		}, func(k *client) { k.setData("/a", "", any) }, []string{"Changed(/a)"}},
		{
			"206",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchData("/a")} },
			func(k *client) { k.setACL("/a", open, any); k.setData("/a", "", any) },
			[]string{"Changed(/a)"},
		},
		{
			"207",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchData("/a")} },
			func(k *client) { k.setData("/a", "", 9) }, nil,
		},
		{
			"213", nil, func(k *client) []jute.Code { return []jute.Code{k.watchData("/"), k.watchChildren("/")} },
			func(k *client) { k.setData("/", "", any); k.create("/x", 0) },
			[]string{"Changed(/)", "Children(/)"},
		},
		{
			"213 by the empty path", nil, func(k *client) []jute.Code { return []jute.Code{k.watchData(""), k.watchChildren("")} },
			func(k *client) { k.setData("/", "", any); k.create("/x", 0) },
			[]string{"Changed(/)", "Children(/)"},
		},
		{
			"255", nil, func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/"), -101 - k.watchExists("/t")} },
			func(k *client) { k.multi(mk("/t", 0), rm("/t", any)) },
			[]string{"Created(/t)", "Children(/)"},
		},
		{
			"256", nil, func(k *client) []jute.Code { return []jute.Code{-101 - k.watchExists("/t"), k.watchChildren("/")} },
			func(k *client) { k.multi(mk("/t", 0), put("/t", 9)) }, nil,
		},
		{
			"257",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.watchData("/a")} },
			func(k *client) { k.multi(put("/a", any), put("/a", any)) },
			[]string{"Changed(/a)"},
		},
		{"exists with NUL", nil, func(k *client) []jute.Code { return []jute.Code{-8 - k.watchExists("/\x00")} }, func(*client) {}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			actor, watcher, second := w.connect(), w.connect(), w.connect()
			for _, path := range tt.made {
				actor.must(actor.create(path, 0))
			}
			for _, k := range []*client{watcher, second, actor} { // cases 208 and 209: also events of its own changes
				for i, code := range tt.watch(k) {
					if code != 0 {
						t.Errorf("watch %d is off by %d", i, code)
					}
				}
			}
			tt.act(actor)
			watcher.wantEvents(tt.want...)
			second.wantEvents(tt.want...)
			actor.wantEvents(tt.want...)
		})
	}
}

// Case 208: an event comes before the reply to the write that caused it.
func TestEventPrecedesReply(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0))
	_ = k.watchData("/a")
	w.heard.log = nil
	before := len(k.events)
	k.setData("/a", "", -1)
	if len(k.events) != before+1 {
		t.Fatal("no event")
	}
	w.wantLog("applied setData 0", "end")
}

// Cases 210 and 211: only clients that may read a node get its events. Others lose their one-shot
// watch without an event.
func TestEventsAreFiltered(t *testing.T) {
	w := newWorld(t)
	owner, other := w.connect().auth("digest", "u:p"), w.connect()
	secret := aclOf(31, "auth", "")
	both := func(want jute.Code, watch func(k *client) jute.Code) {
		t.Helper()
		if a, b := watch(owner), watch(other); a != want || b != want {
			t.Errorf("%v, %v", a, b)
		}
	}
	both(jute.NoNode, func(k *client) jute.Code { return k.watchExists("/a") })
	owner.must(owner.createACL("/a", 0, secret))
	owner.wantEvents("Created(/a)")
	other.wantEvents()
	if other.watchExists("/a") != jute.NoAuth || w.s().Watches().WatchCount() != 0 {
		t.Errorf("%d watches", w.s().Watches().WatchCount())
	}

	owner.must(owner.setACL("/a", jute.OpenACL, -1))
	both(jute.OK, func(k *client) jute.Code { return k.watchData("/a") })
	both(jute.OK, func(k *client) jute.Code { return k.watchChildren("/a") })
	owner.must(owner.setACL("/a", secret, -1))
	owner.must(owner.create("/a/b", 0))
	owner.wantEvents("Children(/a)")
	owner.must(owner.setData("/a", "", -1))
	owner.wantEvents("Changed(/a)")
	owner.must(owner.setACL("/a", jute.OpenACL, -1))
	owner.must(owner.setData("/a", "", -1))
	other.wantEvents()

	both(jute.OK, func(k *client) jute.Code { return k.watchChildren("/a/b") })
	owner.must(owner.setACL("/a/b", secret, -1))
	owner.must(owner.delete("/a/b", -1))
	owner.wantEvents("Deleted(/a/b)")
	other.wantEvents()
	if n := w.s().Watches().WatchCount(); n != 0 {
		t.Errorf("%d watches left", n)
	}
}
