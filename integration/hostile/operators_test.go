package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	operatorConns = 10_000
	// operatorFiles is the number of descriptors that a member may have open in addition: its limit of connections over
	// HTTP, and some that are being closed.
	operatorFiles = 1100
	// fewUnread and unreadConns are the numbers of connections that send requests and do not read, at first and then.
	// unreadRequests is the number of requests of each.
	fewUnread, unreadConns, unreadRequests = 200, 600, 400
	unreadPause                            = 50 * time.Millisecond
	// probes is the number of probes that are sent beside them, one each probeEvery, and probeTime the time that each
	// may take: Kubernetes' default.
	probes, probeTime = 200, time.Second
	probeEvery        = 20 * time.Millisecond
)

// Ten thousand silent connections to a member's port for HTTP cost its clients nothing: they write
// meanwhile, new ones are served, and the member has few descriptors more than before. A probe is
// answered beside them.
func TestConnectionsForOperators(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", process.AnyHTTP)
	victim := e.Members[0]
	addr, err := victim.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	before := openFiles(t, victim)
	var written writes
	done := make(chan struct{})
	go func() {
		defer close(done)
		written = o.write(t, floodTime)
	}()
	for i := range operatorConns {
		c, err := net.DialTimeout("tcp", addr, process.Patience)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
	}
	client := http.Client{Timeout: process.Patience}
	answer, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("readyz beside %d connections: %s", operatorConns, answer.Status)
	}
	if after := openFiles(t, victim); after > before+operatorFiles {
		t.Errorf("the member has %d descriptors open, %d before; want at most %d more", after, before, operatorFiles)
	}
	openOther(t, victim, len(o.sessions))
	<-done
	if len(written) == 0 {
		t.Error("no client wrote meanwhile")
	}
}

var openLine = regexp.MustCompile(`zk_open_file_descriptor_count\t(\d+)`)

// openFiles returns the number of open descriptors of a member.
func openFiles(t *testing.T, m *process.Member) int {
	t.Helper()
	text := ""
	err := process.Until(t.Context(), fmt.Sprintf("member %d answers mntr", m.ID), func() bool {
		text = m.FourLetterWord("mntr")
		return openLine.MatchString(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(openLine.FindStringSubmatch(text)[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Hundreds of connections of this machine send requests without credentials, do not read the replies, and come back when
// they are cut off. They fail no probe. They also come to a member that starts again.
func TestProbesBesideUnreadAnswers(t *testing.T) {
	needs.Check(t, needs.Nightly)
	at := process.FreePort(t)
	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 1, Tick: tick, Lines: process.AnyHTTP,
		Flags: []string{"--set", "admin.serverAddress=" + at.IP.String(), "--set", fmt.Sprint("admin.serverPort=", at.Port)},
	})
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	come := func(n int) {
		for range n {
			readers.Go(func() {
				for ctx.Err() == nil {
					askInVain(ctx, at.String())
					pause(ctx, unreadPause)
				}
			})
		}
	}
	defer readers.Wait()
	defer stop()
	come(fewUnread)
	retry(t, func() verdict { return probe(at.String(), fmt.Sprintf("beside %d connections", fewUnread)) })
	come(unreadConns - fewUnread)
	retry(t, func() verdict { return probe(at.String(), fmt.Sprintf("beside %d connections", unreadConns)) })
	e.KillAll()
	e.Start(e.Members[0])
	e.Settle()
	retry(t, func() verdict {
		return probe(at.String(), fmt.Sprintf("beside %d connections after a restart", unreadConns))
	})
}

// probe sends probes to a member. None may fail.
func probe(addr, when string) (v verdict) {
	failed := map[string]int{}
	for i := range probes {
		time.Sleep(probeEvery)
		client := http.Client{Timeout: probeTime, Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get("http://" + addr + []string{"/livez", "/readyz"}[i%2])
		switch {
		case err != nil:
			failed[err.Error()]++
		case answer.StatusCode != http.StatusOK:
			failed[answer.Status]++
		}
		if err == nil {
			_ = answer.Body.Close()
		}
	}
	if len(failed) > 0 {
		v.wrong = fmt.Sprintf("%s: of %d probes failed %v", when, probes, failed)
	}
	return v
}

// askInVain sends requests over one connection and reads nothing, until the member closes it or ctx ends.
func askInVain(ctx context.Context, addr string) {
	c, err := (&net.Dialer{Timeout: process.Patience}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4096) // otherwise the kernel buffers megabytes
	block := []byte(strings.Repeat("GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", unreadRequests))
	for ctx.Err() == nil {
		_ = c.SetWriteDeadline(time.Now().Add(unreadPause))
		if _, err := c.Write(block); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		time.Sleep(unreadPause)
	}
}
