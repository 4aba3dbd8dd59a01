package wire

import (
	"context"
	"fmt"
	"net"
	"time"
)

const (
	// attemptPause is the time after which another attempt to connect begins beside the first one. Connecting takes a few round
	// trips. If one packet of them is lost, the kernel waits for 0.2 to 1 s. Each further pause is twice as long, so a
	// member that is only slow gets few more handshakes: three in 2 s, and four in 5 s.
	attemptPause = 300 * time.Millisecond
	// maxAttempts limits the attempts of one Dial that are under way. While there are as many, none begins.
	maxAttempts = 4
)

// attempt is the outcome of one attempt to connect.
type attempt struct {
	number int // from 0, as they began
	conn   net.Conn
	err    error
}

// dialOverlapping returns the first connection that connect opens. It calls connect again after attemptPause and longer and
// longer pauses, as long as a call is under way, and ends no call before there is a connection or ctx ends. So whatever
// becomes of the others, it connects when the first call alone would have. If all calls that began have failed, it returns the error of
// the first one. When it returns, it cancels the other calls, and closes their connections.
func dialOverlapping(ctx context.Context, connect func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan attempt)
	begin := func(number int) {
		conn, err := connect(ctx)
		if ctx.Err() == nil {
			select {
			case outcomes <- attempt{number, conn, err}:
				return
			case <-ctx.Done():
			}
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	go begin(0)
	begun, underWay, pause := 1, 1, attemptPause
	next := time.NewTimer(pause)
	defer next.Stop()
	var firstErr error // of attempt 0
	for {
		select {
		case a := <-outcomes:
			if a.err == nil {
				return a.conn, nil
			}
			if a.number == 0 {
				firstErr = a.err
			}
			if underWay--; underWay == 0 {
				return nil, firstErr
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("no connection after %d attempts: %w", begun, ctx.Err())
		case <-next.C:
			if underWay < maxAttempts {
				go begin(begun)
				begun, underWay = begun+1, underWay+1
			}
			pause *= 2
			next.Reset(pause)
		}
	}
}
