package reconnect

import (
	"context"
	"errors"
	"testing"

	"rollcall/client"
)

// An event of a node ends no wait with an error; the end of the session does, with its reason.
func TestEventError(t *testing.T) {
	for _, tt := range []struct {
		event client.Event
		want  error
	}{
		{client.Event{Type: client.NodeDeleted}, nil},
		{client.Event{Type: client.SessionEnded}, client.ErrClosed},
		{client.Event{Type: client.SessionEnded, Err: client.ErrExpired}, client.ErrExpired},
	} {
		fired := make(chan client.Event, 1)
		fired <- tt.event
		for _, err := range []error{EventError(tt.event), AwaitEvent(t.Context(), &client.OnceWatch{Fired: fired})} {
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%+v: %v, want %v", tt.event, err, tt.want)
			}
		}
	}
}

// Without a watch there is nothing to wait for.
func TestAwaitEventWithoutWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := AwaitEvent(ctx, nil); err != nil {
		t.Error(err)
	}
}
