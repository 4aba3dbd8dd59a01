package target

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/internal/keystore/authority"
)

// TestMain lets this binary stand in for Rollcall: the members and the commands of the tests' ensembles are this binary.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || strings.HasPrefix(os.Args[1], "-") {
		_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0") // else each stand-in takes a second to end
		os.Exit(m.Run())
	}
	if err := runStandIn(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// runStandIn serves, makes certificates, or writes down a command and the member that it is for.
func runStandIn(args []string) error {
	token := os.Getenv("ROLLCALL_TOKEN_FILE")
	switch {
	case args[0] == "serve":
		return serveAsMember(args[1])
	case args[0] == "certs":
		return makeCertificates(args[2], args[3:])
	case token == "":
		return errors.New("a command has no token")
	case args[1] == "save":
		if err := os.WriteFile(args[2], nil, 0o600); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(token), "refuse")); err == nil {
		return errors.New("the command is refused")
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(token), "commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getenv("ROLLCALL_ADMIN"), strings.Join(args, " "))
	return errors.Join(err, f.Close())
}

func makeCertificates(dir string, names []string) error {
	a, err := authority.New(dir, time.Now(), time.Hour)
	if err != nil {
		return err
	}
	cert, _, err := a.PEMFiles()
	if err = errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "ca.pem"), cert, 0o600)); err != nil {
		return err
	}
	for _, name := range names {
		pair, err := a.Issue([]string{name}, time.Now(), time.Hour)
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".pem"), pair, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// serveAsMember serves as a member with a zoo.cfg does, as far as an ensemble of processes checks. Member 1 leads.
func serveAsMember(config string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[key] = value
	}
	if settings["fails"] != "" {
		return errors.New("it fails as it should")
	}
	id, err := os.ReadFile(filepath.Join(settings["dataDir"], "myid"))
	if err != nil {
		return err
	}
	mode := map[bool]string{true: "leader", false: "follower"}[string(id) == "1\n"]
	if settings["server.1"] == "" {
		mode = "standalone"
	}
	fmt.Println("starts", filepath.Base(os.Args[0]))
	// This port comes first: once the others reply, an ensemble counts as started.
	if port := settings["secureClientPort"]; port != "" {
		if err := serveTLS(net.JoinHostPort(settings["secureClientPortAddress"], port), settings["ssl.keyStore.location"], settings["ssl.trustStore.location"]); err != nil {
			return err
		}
	}
	if err := serveWords(net.JoinHostPort(settings["clientPortAddress"], settings["clientPort"]), mode); err != nil {
		return err
	}
	if settings["admin.tokenFile"] != "" {
		if err := serveHTTP(net.JoinHostPort(settings["admin.serverAddress"], settings["admin.serverPort"]), settings["admin.tokenFile"]); err != nil {
			return err
		}
	}
	for s := range signals {
		if s == syscall.SIGTERM {
			fmt.Println("shuts down")
			return nil
		}
		file := settings["ensembleSecretFile"]
		if file == "" {
			fmt.Println("keys reloaded")
			continue
		}
		secret, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Printf("%q: the ensemble's secrets were reloaded\n", secret)
	}
	return nil
}

// serveEach calls serve for each connection to an address.
func serveEach(address string, serve func(net.Conn)) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return nil
}

func serveWords(address, mode string) error {
	return serveEach(address, func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, 4)); err == nil {
			_, _ = io.WriteString(conn, ownVersion+modeOf+mode+endOfAnswer)
		}
	})
}

// serveHTTP replies that all members are well, to those who know the token.
func serveHTTP(address, tokenFile string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(tokenFile)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") != "Bearer "+strings.TrimSpace(string(token)) {
				http.Error(w, "no token", http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, `{"settled":true}`)
		}))
	}()
	return err
}

// serveTLS accepts clients with certificates, by the files as they are at each handshake.
func serveTLS(address, keyFile, trustFile string) error {
	return serveEach(address, func(conn net.Conn) {
		pair, err := tls.LoadX509KeyPair(keyFile, keyFile)
		trusted, err2 := os.ReadFile(trustFile)
		if cmp.Or(err, err2) != nil {
			return
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(trusted)
		secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
		if secured.Handshake() == nil {
			_, _ = io.WriteString(secured, "welcome")
			_ = secured.Close()
		}
	})
}
