package hostile

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	manyIdentities = 63   // beside the client's address: as many as a member accepts by default
	identityWrites = 2000 // of 50 bytes each
	// mostIdentityBytes is the most bytes that a write may take in the log, on the average: the identities have 4 KiB.
	mostIdentityBytes = 400
)

// A client with as many identities as it may have writes small data. The log must not grow by the identities with each write.
func TestManyIdentities(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, _ := startMembers(t, "", process.AnyHTTP)
	c := &other{Conn: dial(t, e.Members[0], ""), member: e.Members[0], path: []byte("/many")}
	if _, err := c.Open(process.Patience); err != nil {
		t.Fatal(err)
	}
	for i := range manyIdentities {
		c.call(t, jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: fmt.Appendf(nil, "%020d%03d:p", 0, i)})
	}
	c.call(t, jute.OpCreate, jute.CreateRequest{Path: c.path, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
	before := entryBytes(t, e.Members[0])
	for range identityWrites {
		c.call(t, jute.OpSetData, jute.SetDataRequest{Path: c.path, Data: make([]byte, 50), Version: -1})
	}
	each := (entryBytes(t, e.Members[0]) - before) / identityWrites
	t.Logf("each write took %.0f bytes of the log", each)
	if each > mostIdentityBytes {
		t.Errorf("each write took %.0f bytes of the log, want at most %d", each, mostIdentityBytes)
	}
}

var entrySum = regexp.MustCompile(`(?m)^rollcall_entry_bytes_sum (\S+)$`)

// entryBytes returns the number of bytes of the entries that a member has written to its log.
func entryBytes(t *testing.T, m *process.Member) float64 {
	t.Helper()
	address, err := m.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := entrySum.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no sum of the entries in %s", text)
	}
	sum, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
