package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/config"
	"rollcall/migrate/datadir"
)

const (
	// dialTimeout limits a connection attempt. A running server takes a connection within a round trip.
	dialTimeout = time.Second
	// pidFile is the file in the dataDir to which zkServer.sh writes its process id.
	pidFile = "zookeeper_server.pid"
	// maxPidFile limits the bytes that are read of it: a number and a line end.
	maxPidFile = 32
)

// zooKeeperRunningSigns returns the signs that ZooKeeper still runs: something takes connections at the ports of this
// member's clients or of the server list, or a directory names a live process. root is the machine's root
// directory.
func zooKeeperRunningSigns(ctx context.Context, cfg config.Config, given []datadir.Directory,
	root fs.FS,
) []string {
	addrs := [][2]string{{cfg.ClientAddr, "clientPort"}, {cfg.SecureAddr, "secureClientPort"}}
	for _, s := range cfg.Servers {
		if !cfg.Standalone {
			addrs = append(addrs, [2]string{s.ElectionAddr(), fmt.Sprintf("server.%d", s.ID)})
		}
	}
	found := make([]string, len(addrs))
	var dials sync.WaitGroup
	for i, at := range addrs {
		if addr := dialableAddr(at[0]); addr != "" {
			dials.Go(func() {
				if acceptsConnections(ctx, addr) {
					found[i] = fmt.Sprintf("something takes connections at %s (%s)", addr, at[1])
				}
			})
		}
	}
	dials.Wait()
	for _, f := range given {
		found = append(found, zooKeeperProcess(f.Data, root))
	}
	return slices.DeleteFunc(found, func(sign string) bool { return sign == "" })
}

// dialableAddr returns the address at which this machine reaches a listener, or "" without a fixed port.
func dialableAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

func acceptsConnections(ctx context.Context, addr string) bool {
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// zooKeeperProcess describes the live ZooKeeper process that the directory names, or returns "". Without /proc
// it finds none.
func zooKeeperProcess(dir string, root fs.FS) string {
	f, err := os.Open(filepath.Join(dir, pidFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text := make([]byte, maxPidFile)
	n, _ := f.Read(text) // an empty text has no number
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil || pid < 1 {
		return ""
	}
	command, err := fs.ReadFile(root, path.Join("proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !strings.Contains(strings.ToLower(string(command)), "zookeeper") {
		return "" // the process has ended, or its id was reused
	}
	return fmt.Sprintf("%s names process %d, which is a ZooKeeper that runs", f.Name(), pid)
}
