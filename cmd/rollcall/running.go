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
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/config"
	"rollcall/zk/datadir"
)

const (
	// dialTimeout is how long a server has to take a connection: one that runs does within its network's delay.
	dialTimeout = time.Second
	// pidFile is where zkServer.sh writes the number of the process, in the dataDir.
	pidFile = "zookeeper_server.pid"
	// maxPidFile is how many bytes of that file are read: a number and the end of its line.
	maxPidFile = 32
)

// runningSigns returns the signs that ZooKeeper still runs, where its directories are to be taken over by the member of cfg: something takes connections where
// the clients of this member or the members of its ensemble connect, or a process is alive that a directory names. root is the
// root directory of the machine.
func runningSigns(ctx context.Context, cfg config.Config, given []datadir.Directory, root fs.FS) (signs []string) {
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
	for _, sign := range found {
		if sign != "" {
			signs = append(signs, sign)
		}
	}
	return signs
}

// dialableAddr returns where an address to listen on is reached from this machine, or "" if nobody can listen there.
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

// zooKeeperProcess returns a text about the process of ZooKeeper that the directory names and that is alive, or "". Systems without /proc
// show none.
func zooKeeperProcess(dir string, root fs.FS) string {
	f, err := os.Open(filepath.Join(dir, pidFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text := make([]byte, maxPidFile)
	n, _ := f.Read(text) // of nothing there is no number
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil || pid < 1 {
		return ""
	}
	command, err := fs.ReadFile(root, path.Join("proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !strings.Contains(strings.ToLower(string(command)), "zookeeper") {
		return "" // the process has ended, or its number is another one's now
	}
	return fmt.Sprintf("%s names process %d, which is a ZooKeeper that runs", f.Name(), pid)
}
