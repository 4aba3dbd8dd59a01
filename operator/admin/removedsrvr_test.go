package admin

import (
	"bytes"
	"strings"
	"testing"
)

// A member that was removed says so to srvr, so that commands do not wait for it. A member that is about to serve gives no reason, as
// ZooKeeper does, and no other word gives one.
func TestRemovedMemberSaysSo(t *testing.T) {
	for _, tt := range []struct {
		word   string
		health Health
		want   string
	}{
		{"srvr", Health{}, sentence},
		{"srvr", Health{LeavingVersion: 7, RemovedVersion: 7}, sentence + "Reason: this member was removed from the ensemble (the list of version 0x7): stop it, or add it again\n"},
		{"mntr", Health{LeavingVersion: 7, RemovedVersion: 7}, sentence},
	} {
		words, source := newTestWords(t, "")
		source.health = tt.health
		words.allowAll = true
		var out bytes.Buffer
		if err := words.WriteReply(tt.word, strings.NewReader(""), &out); err != nil || out.String() != tt.want {
			t.Errorf("%s, %+v: %q, %v, want %q", tt.word, tt.health, out.String(), err, tt.want)
		}
	}
}
