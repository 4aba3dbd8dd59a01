package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// standIn is the path of this test binary, which stands in for Rollcall.
var standIn string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" && !IsWrapped() {
		if err := serveAsMember(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0") // else each stand-in takes a second to end
	os.Exit(Main(m, &standIn, func(string) (string, error) { return os.Executable() }))
}

// serveAsMember serves as a member with a zoo.cfg does, as far as an Ensemble checks. The first one of the server lines
// leads. The reply to the command "sync" comes after an fsync.
func serveAsMember(config string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	settings, first := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[key] = value
		if number, ok := strings.CutPrefix(key, "server."); ok && first == "" {
			first = number
		}
	}
	id, err := os.ReadFile(filepath.Join(settings["dataDir"], "myid"))
	if err != nil {
		return err
	}
	number, mode := strings.TrimSpace(string(id)), "follower"
	switch {
	case first == "":
		mode = "standalone"
	case first == number:
		mode = "leader"
	case strings.HasSuffix(settings["server."+number], ":observer"):
		mode = "observer"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(settings["clientPortAddress"], settings["clientPort"]))
	if err != nil {
		return err
	}
	fmt.Println(joinsLine)
	fmt.Printf("msg=\"member starts\" id=%s http=127.0.0.1:%d env=%s\n%s\n", number, os.Getpid(), os.Getenv("STAND_IN"), joinedLine)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(conn, word); err == nil {
				if string(word) == "sync" {
					f, err := os.Create(filepath.Join(settings["dataDir"], "synced"))
					if err == nil {
						_ = f.Sync()
					}
				}
				_, _ = io.WriteString(conn, "Zxid: 0x1\nMode: "+mode+"\n")
			}
			_ = conn.Close()
		}
	}()
	<-signals
	fmt.Println("shuts down")
	return nil
}
