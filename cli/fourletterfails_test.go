package cli

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"rollcall/client"
)

// The answer to a word that cannot be written is an error, in each format.
func TestWordCannotBeWritten(t *testing.T) {
	addr := wordServer(t)
	for _, format := range []string{"table", "json", "yaml"} {
		w, _, _ := testWorld()
		w.Out = fullDisk{}
		if _, err := Execute(t.Context(), NewRoot(w, "1"), []string{"word", "--hosts", addr, "-o", format, "mntr"}); !errors.Is(err, errFullDisk) {
			t.Errorf("-o %s: %v, want %v", format, err, errFullDisk)
		}
	}
}

// A watch says that its connection is lost, and that it is there again.
func TestWatchTellsOfALossOnce(t *testing.T) {
	var errs bytes.Buffer
	c := &nodeWatchCommand{nodeCommand: newNodeCommand(IOStreams{Err: &errs, Now: time.Now})}
	lost, again := "rollcall: the connection is lost (no answer); looking for another member\n", "rollcall: connected again; the last event may come again, and events of changes meanwhile may be missing if the server does not keep them\n"
	why := errors.New("no answer")
	for _, tt := range []struct {
		state client.State
		want  string
	}{
		{client.Connecting, ""}, {client.Connected, ""}, {client.Suspended, lost}, {client.Reconnected, again}, {client.Suspended, lost}, {client.Reconnected, again},
	} {
		errs.Reset()
		c.onState(client.StateChange{State: tt.state, Err: why})
		if errs.String() != tt.want {
			t.Errorf("%v: %q, want %q", tt.state, errs.String(), tt.want)
		}
	}
}
