//go:build !linux

package wire

import (
	"net"
	"time"
)

// setSocketOptions does nothing here: the other deadlines must do.
func setSocketOptions(net.Conn, time.Duration) {}
