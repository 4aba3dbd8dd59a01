package member

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/config"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A member that was planted starts with the sessions and nodes of the image. A client takes its session
// over, although it has seen a late zxid, and the next zxid is above that.
func TestPlant(t *testing.T) {
	const id, zxid, term = 7<<56 + 3, 9<<32 + 5, 9
	password := [16]byte{1, 2, 3}
	image := func(w io.Writer) error {
		nodes := []znode.ImageNode{
			{Path: "/"},
			{Path: "/app", Data: []byte("of before"), CreateCount: 4},
			{Path: "/app/lock", OwnerSession: id, Czxid: zxid, Mzxid: zxid, Pzxid: zxid},
			{Path: "/zookeeper"},
			{Path: "/zookeeper/config"},
			{Path: "/zookeeper/quota"},
		}
		iw, err := znode.NewImageWriter(w, znode.ImageHead{
			Index: 2, Zxid: zxid, Members: []znode.MemberProgress{{ID: 7, HighestSession: id}}, SessionCount: 1, NodeCount: uint64(len(nodes)),
		})
		if err != nil {
			return err
		}
		if err := iw.WriteSession(znode.Session{ID: id, Timeout: 10 * time.Second, Password: password}); err != nil {
			return err
		}
		for _, n := range nodes {
			n.ACL = jute.OpenACL
			if err := iw.WriteNode(n); err != nil {
				return err
			}
		}
		_, err = iw.Close()
		return err
	}
	servers := []Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}
	p := SeedConfig{ID: 1, Servers: servers, Dir: t.TempDir(), Index: 3, Term: term, WriteImage: image}
	if err := SeedMember(p); err == nil || !strings.Contains(err.Error(), "it goes to index 2") {
		t.Errorf("the index of another image: %v", err)
	}
	p.Index = 2
	if err := SeedMember(p); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		ID: 1, Servers: servers, ClientListener: listen(t),
		Settings: config.Settings{Dir: p.Dir, Tick: 100 * time.Millisecond, MinTimeout: 400 * time.Millisecond, MaxTimeout: time.Minute}.WithDefaults(),
	}
	_, stop := runAlone(t, cfg)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, cfg.ClientListener.Addr().String(), client.Config{
		Resume: &client.Handover{Session: id, Password: password[:], LastZxid: zxid},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	if err := c.AwaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Session(); got != id {
		t.Errorf("session %v, want %v", got, client.SessionID(id))
	}
	data, _, err := c.Get(ctx, "/app")
	if err != nil || !bytes.Equal(data, []byte("of before")) {
		t.Errorf("%q, %v", data, err)
	}
	if st, _, err := c.Exists(ctx, "/app/lock"); err != nil || st.Owner != id {
		t.Errorf("%+v, %v", st, err)
	}
	path, _, err := c.Create(ctx, "/app/n-", nil, client.PersistentSequential)
	if err != nil || path != "/app/n-0000000004" {
		t.Errorf("%q, %v", path, err)
	}
	if st, _, err := c.Exists(ctx, path); err != nil || st.Created < (term+1)<<32 {
		t.Errorf("the first zxid is %#x, %v", st.Created, err)
	}
}
