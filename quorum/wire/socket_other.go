//go:build !linux

package wire

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing here: the other deadlines must do.
func limitUnacknowledged(net.Conn, time.Duration) {}
