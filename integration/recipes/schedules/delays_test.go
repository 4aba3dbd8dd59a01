package schedules

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// replyAll replies to each request of a connection at once.
func replyAll(t *testing.T, conn net.Conn) {
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(conn, nil, maxFrame)
		if err != nil {
			return
		}
		reply := jute.ConnectResponse{SessionID: 1}.Append(nil)
		if !first {
			var header jute.RequestHeader
			d := jute.NewDecoder(frame)
			header.Decode(&d)
			reply = jute.ReplyHeader{Xid: header.Xid}.Append(nil)
		}
		if err := jute.WriteFrame(conn, reply); err != nil {
			t.Error(err)
		}
	}
}

// A delayed reply waits for the gates that are closed when its delay is over, whenever that began.
func TestGatesAfterDelay(t *testing.T) {
	const delay = 3 * time.Second
	for _, tt := range []struct {
		name                 string
		pauseAt, pauseLength time.Duration
		slowAt, slowLength   time.Duration
		want                 time.Duration
	}{
		{name: "none", want: delay},
		{name: "pause that ends before", pauseAt: time.Second, pauseLength: time.Second, want: delay},
		{name: "pause that ends after", pauseAt: time.Second, pauseLength: 10 * time.Second, want: 11 * time.Second},
		{name: "slow reader", slowAt: 2 * time.Second, slowLength: 3 * time.Second, want: 5 * time.Second},
		{
			name:    "pause and slow reader",
			pauseAt: time.Second, pauseLength: 4 * time.Second, slowAt: 2 * time.Second, slowLength: 5 * time.Second,
			want: 7 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newWorld(t.Context(), nil, 1, 1, plan{{client: 1, request: 1, kind: delayReply, length: delay}}).actors[0]
				near, far := net.Pipe()
				go replyAll(t, far)
				conn, _ := startWire(near, a)
				defer func() { _ = conn.Close() }()
				roundTrip := func(request []byte) {
					t.Helper()
					err := jute.WriteFrame(conn, request)
					if err == nil {
						_, err = jute.ReadFrame(conn, nil, maxFrame)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				roundTrip(jute.ConnectRequest{}.Append(nil))
				began := time.Now()
				time.AfterFunc(tt.pauseAt, func() { a.paused.closeFor(tt.pauseLength) })
				time.AfterFunc(tt.slowAt, func() { a.slow.closeFor(tt.slowLength) })
				roundTrip(jute.RequestHeader{Xid: 1, Op: jute.OpGetData}.Append(nil))
				if took := time.Since(began); took != tt.want {
					t.Errorf("the reply came after %v, want %v", took, tt.want)
				}
			})
		})
	}
}
