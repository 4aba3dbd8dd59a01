package member_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/zk/jute"
)

// onThisMachine is a listener whose connections come from this machine.
type onThisMachine struct{ net.Listener }

func (l onThisMachine) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return nearConn{c}, err
}

type nearConn struct{ net.Conn }

func (nearConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A process on the member's machine without credentials reads over HTTP and by four-letter words what admin.localReads allows,
// and nothing of nodes if clients must prove themselves.
func TestHiddenNodes(t *testing.T) {
	paths := []string{"/commands/dump", "/commands/watches", "/commands/watches_by_path", "/v1/removals"}
	asked := []string{"/v1/nodes?path=", "/v1/owner?path=", "/v1/watches?path=", "/v1/removals?path="}
	for name, tt := range map[string]struct {
		adjust          func(cfg *member.Config)
		protected, open int  // statuses of what is asked about a path
		names           bool // of the open node are shown
	}{
		"state":  {func(*member.Config) {}, 401, 200, true},
		"data":   {func(cfg *member.Config) { cfg.HTTP.LocalReads = admin.ReadData }, 200, 200, true},
		"none":   {func(cfg *member.Config) { cfg.HTTP.LocalReads = admin.ReadNothing }, 401, 401, false},
		"proven": {func(cfg *member.Config) { cfg.Login.Schemes = []string{"digest"} }, 401, 401, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := operators{}
				e := cluster.Start(t, 1, cluster.Options{Adjust: func(cfg *member.Config) {
					tt.adjust(cfg)
					cfg.CommandWhitelist = []string{"*"}
					all.listen(cfg)
					cfg.OperatorListener = onThisMachine{cfg.OperatorListener}
				}})
				leader := e.Ready()
				o := nodeOps{t, e}
				for _, c := range []admin.NodeChange{create("/payroll", aclOf(jute.PermAll, "ip", "10.9.9.9")), create("/payroll/alice", jute.OpenACL), create("/open", jute.OpenACL), create("/open/a", jute.OpenACL)} {
					if _, _, status, why := o.change(leader, time.Minute, c); status != 200 {
						t.Fatal(why)
					}
				}
				for _, path := range []string{"/payroll/alice", "/open/a"} { // they are in the list of removals
					if _, _, status, why := o.change(leader, time.Minute, admin.NodeChange{Op: jute.OpDelete, Path: path, Version: -1}); status != 200 {
						t.Fatal(why)
					}
				}
				if _, _, status, why := o.change(leader, time.Minute, create("/payroll/bob", jute.OpenACL)); status != 200 {
					t.Fatal(why)
				}
				for _, path := range paths {
					_, text := all.get(t, leader, path)
					if hidden := tt.protected != 200; hidden && strings.Contains(text, "/payroll/") {
						t.Errorf("%s shows %s", path, text)
					}
				}
				_, text := all.get(t, leader, "/v1/removals")
				if got := strings.Contains(text, `"/open/a"`); got != tt.names {
					t.Errorf("removals show the open node: %t, want %t: %s", got, tt.names, text)
				}
				for _, ask := range asked {
					if status, text := all.get(t, leader, ask+"/payroll/bob"); status != tt.protected {
						t.Errorf("%s/payroll/bob: %d, want %d: %s", ask, status, tt.protected, text)
					}
					if status, text := all.get(t, leader, ask+"/open"); status != tt.open {
						t.Errorf("%s/open: %d, want %d: %s", ask, status, tt.open, text)
					}
				}
				if _, text := all.get(t, leader, "/v1/nodes?path=/open"); strings.Contains(text, "b2YgL29wZW4=") != (name == "data") {
					t.Errorf("the data of /open: %s", text)
				}
			})
		})
	}
}
