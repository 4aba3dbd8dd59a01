package recipes

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/client/registry"
)

// Instances are found, followed, updated and gone. Malformed entries of others are named and left out.
func TestRegistry(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		a, b := g.client(), g.client()
		want := registry.Instance{Name: "search", Address: "h", Port: 80}
		reg, want, err := registry.Register(g.ctx, a, "/services", want)
		g.must(err)
		list, err := registry.Instances(g.ctx, b, "/services", "search")
		g.must(err)
		if want.Type = registry.Dynamic; len(list.Entries) != 1 || !reflect.DeepEqual(list.Entries[0], want) {
			t.Errorf("%+v, want %+v", list.Entries, want)
		}
		for name, data := range map[string]string{"bad": "127.0.0.1", "long": strings.Repeat(" ", registry.MaxEntrySize+1)} {
			_, _, err = b.Create(g.ctx, "/services/search/"+name, []byte(data), client.Persistent)
			g.must(err)
		}
		step := 0
		for list, err := range registry.Watch(g.ctx, b, "/services", "search") {
			g.must(err)
			if len(list.Malformed) != 2 || list.Malformed[0].Path != "/services/search/bad" || list.Malformed[0].Err == nil {
				t.Errorf("malformed: %v", list.Malformed)
			}
			switch {
			case step == 0 && len(list.Entries) == 1:
				want.Disabled = true
				g.must(reg.Update(g.ctx, want))
				step++
			case step == 1 && list.Entries[0].Disabled:
				g.must(b.Delete(g.ctx, reg.Path(), client.AnyVersion)) // it comes back
				step++
			case step == 2 && len(list.Entries) == 1:
				g.must(reg.Unregister(g.ctx))
				step++
			}
			if step == 3 && len(list.Entries) == 0 {
				break
			}
		}
		if names, err := registry.Names(g.ctx, b, "/services"); err != nil || fmt.Sprint(names) != "[search]" {
			t.Error(names, err)
		}
		if names, err := registry.Names(g.ctx, b, "/none"); err != nil || len(names) != 0 {
			t.Error(names, err)
		}
		for _, bad := range []registry.Instance{{}, {Name: "a/b"}, {Name: "a", ID: ".."}, {Name: "a", Type: registry.Static}} {
			if _, _, err := registry.Register(g.ctx, a, "/services", bad); err == nil {
				t.Errorf("%+v was registered", bad)
			}
		}
	})
}

// Servers of a serverset come back with another number, and other nodes of its parent are not shown.
func TestServerset(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		a, b := g.client(), g.client()
		server := registry.Server{Service: registry.Endpoint{Host: "h", Port: 80}}
		reg, err := registry.RegisterServer(g.ctx, a, "/set", server)
		g.must(err)
		if !regexp.MustCompile(`^/set/member_[0-9]{20}0000000000$`).MatchString(reg.Path()) { // as commons' readers expect
			t.Error(reg.Path())
		}
		_, _, err = b.Create(g.ctx, "/set/vector_0000000001", []byte("{}"), client.Persistent)
		g.must(err)
		g.must(b.Delete(g.ctx, reg.Path(), client.AnyVersion))
		for list, err := range registry.WatchServers(g.ctx, b, "/set") {
			g.must(err)
			if len(list.Malformed) != 0 {
				t.Error(list.Malformed)
			}
			if len(list.Entries) == 1 {
				break
			}
		}
		list, err := registry.Servers(g.ctx, b, "/set")
		g.must(err)
		if len(list.Entries) != 1 || list.Entries[0].Service != server.Service || list.Entries[0].Status != registry.Alive {
			t.Errorf("%+v", list)
		}
		g.expire(a)
		<-reg.Done()
		g.wantError(reg.Err(), client.ErrExpired)
		list, err = registry.Servers(g.ctx, b, "/set")
		g.must(err)
		if len(list.Entries) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

// A name or an id that cannot be the name of a node is rejected, and the error names it.
func TestRegisterBadNames(t *testing.T) {
	for _, bad := range []string{".", "..", "a/b"} {
		_, _, err := registry.Register(t.Context(), nil, "/services", registry.Instance{Name: bad, Address: "h"})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the name %q", bad)) {
			t.Errorf("the name %q: %v", bad, err)
		}
		_, _, err = registry.Register(t.Context(), nil, "/services", registry.Instance{Name: "x", ID: bad, Address: "h"})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the id %q", bad)) {
			t.Errorf("the id %q: %v", bad, err)
		}
	}
}

// An entry that cannot be encoded is not registered, and does not replace another one.
func TestEntryThatCannotBeEncoded(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		reg, good, err := registry.Register(g.ctx, c, "/services", registry.Instance{Name: "search", Port: 80})
		g.must(err)
		bad := good
		bad.Port = -1
		if err := reg.Update(g.ctx, bad); err == nil || !strings.Contains(err.Error(), "update "+reg.Path()) {
			t.Errorf("update: %v", err)
		}
		bad.ID = "bad"
		if _, _, err := registry.Register(g.ctx, c, "/services", bad); err == nil || !strings.Contains(err.Error(), "/search/bad") {
			t.Errorf("register: %v", err)
		}
		list, err := registry.Instances(g.ctx, c, "/services", "search")
		g.must(err)
		if len(list.Entries) != 1 || list.Entries[0].Port != 80 || len(list.Malformed) != 0 {
			t.Errorf("%+v", list)
		}
	})
}
