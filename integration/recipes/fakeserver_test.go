package recipes

import (
	"net"
	"testing"

	"rollcall/rollcalltest"
	"rollcall/zk/zktest"
)

// A member replies to the table that the server in memory of the client's own tests passes, too. So their recipes meet what
// a member does.
func TestRepliesOfTheClientsServer(t *testing.T) {
	srv := rollcalltest.Start(t)
	zktest.TestServer(t, func() (net.Conn, error) { return srv.Dial(t.Context(), "tcp", srv.ConnectString()) })
}
