package tap

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// second decides on the second frame of the server, and lets all others pass.
type second struct {
	fate Fate
	seen *int
}

func (second) Request(net.Conn, []byte, bool) bool { return false }

func (s second) Reply([]byte, bool, int) Fate {
	if *s.seen++; *s.seen == 2 {
		return s.fate
	}
	return Fate{}
}

func (second) NoMore(bool, error) {}

// Of three frames that come at once, the second is held back, and the third with it. The first is not.
func TestFate(t *testing.T) {
	await := func(passes bool) func() bool {
		return func() bool {
			time.Sleep(2 * time.Second)
			return passes
		}
	}
	for _, tt := range []struct {
		name string
		fate Fate
		want []time.Duration // when frames arrive, and then when the link ends if it does before the last one
	}{
		{"passes", Fate{}, []time.Duration{0, 0, 0}},
		{"last", Fate{Last: true}, []time.Duration{0, 0, 0}},
		{"lost", Fate{Lose: true}, []time.Duration{0, 0}},
		{"delayed", Fate{Delay: time.Second}, []time.Duration{0, time.Second, time.Second}},
		{"delayed and lost", Fate{Delay: time.Second, Lose: true}, []time.Duration{0, time.Second}},
		{"waits", Fate{Await: await(true)}, []time.Duration{0, 2 * time.Second, 2 * time.Second}},
		{"waits in vain", Fate{Await: await(false)}, []time.Duration{0, 2 * time.Second}},
		{"all", Fate{Delay: time.Second, Await: await(true), Lose: true}, []time.Duration{0, 3 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, near := net.Pipe()
				far, server := net.Pipe()
				go New[int](near).Run(far, MaxLength, second{tt.fate, new(int)})
				go func() {
					frame := []byte{0, 0, 0, 1, 'a'}
					_, _ = server.Write(slices.Concat(frame, frame, frame)) // if it fails, the frames do not arrive
				}()
				began := time.Now()
				var got []time.Duration
				var err error
				for err == nil && len(got) < 3 {
					_, err = jute.ReadFrame(client, nil, MaxLength)
					got = append(got, time.Since(began))
				}
				if !slices.Equal(got, tt.want) || err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("frames after %v, and then %v, want %v", got, err, tt.want)
				}
				_ = client.Close()
				_ = server.Close()
			})
		})
	}
}
