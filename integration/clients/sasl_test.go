package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/cli"
	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// saslUsers is the JAAS file of the servers. carol is the super user.
const saslUsers = `// users of clients
Server {
	org.apache.zookeeper.server.auth.DigestLoginModule required
	user_bob="bob's \"secret\""
	user_carol="carolsecret";
};
`

// saslHosts are two servers with saslUsers: on the first clients may log in by SASL, and on the second
// they must.
type saslHosts [2]string

// saslLines are of the zoo.cfg of each.
var saslLines = [2]string{"superUser=carol\n", "superUser=carol\nsessionRequireClientSASLAuth=true\n"}

func writeUsers(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(path, []byte(saslUsers), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startSASL(t *testing.T) (hosts saslHosts) {
	t.Helper()
	users := writeUsers(t)
	for i, line := range saslLines {
		lines := line + "java.security.auth.login.config=" + users + "\n"
		hosts[i] = process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: lines}).Members[0].Clients
	}
	return hosts
}

// startZooKeeperSASL runs two servers of Debian's ZooKeeper. Clients wait until they serve.
func startZooKeeperSASL(t *testing.T) (hosts saslHosts) {
	t.Helper()
	users := writeUsers(t)
	for i, line := range saslLines {
		line += "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
		hosts[i] = startZooKeeper(t, line, "-Djava.security.auth.login.config="+users).Clients
	}
	return hosts
}

// kazooSASL runs kazoo's program on the servers.
func (h saslHosts) kazooSASL(ctx context.Context) error {
	return obey(ctx, "kazoo", exec.Command(python, "-B", "python/kazoo_sasl.py", h[0], h[1]), map[string]func() error{"ok": func() error { return nil }})
}

// javaSASL runs Java's program on the servers.
func (h saslHosts) javaSASL(ctx context.Context, classPath string) error {
	d, err := talk("SaslCases", java(classPath, "SaslCases", h[0], h[1]))
	if err != nil {
		return err
	}
	defer d.stop()
	if _, err := d.expect(ctx, "ok"); err != nil {
		return err
	}
	return d.wantStatus(ctx, 0)
}

func requireKazooSASL(t *testing.T) {
	t.Helper()
	needs.Check(t, needs.Kazoo)
	needs.Check(t, needs.PureSASL)
}

// commandsSASL runs commands of Rollcall on the server where clients must log in.
func (h saslHosts) commandsSASL(ctx context.Context, t *testing.T) {
	t.Helper()
	run := func(password string, args ...string) (string, error) {
		path := filepath.Join(t.TempDir(), "client.jaas")
		text := fmt.Sprintf("Client {org.apache.zookeeper.server.auth.DigestLoginModule required username=bob password=%q;};", password)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if args[0] != "shell" {
			args = append(args, "--hosts", h[1])
		}
		cmd := exec.CommandContext(ctx, rollcall, args...)
		if password != "" {
			cmd.Env = append(os.Environ(), "ROLLCALL_JAAS="+path)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const right = `bob's "secret"`
	err := process.Until(ctx, "the server serves", func() bool { _, err := run(right, "ls", "/"); return err == nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"create", "/commands", "x"}, {"acl", "/commands", "sasl:bob:cdrwa"}, {"get", "/commands"}, {"rm", "/commands"}} {
		if out, err := run(right, args...); err != nil {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
	// What follows the verb of a shell are its words, so --hosts comes before it.
	shell := []string{"shell", "--hosts", h[1]}
	if out, err := run(right, slices.Concat(shell, []string{"whoami"})...); err != nil || !strings.Contains(out, "sasl: bob\n") {
		t.Errorf("shell: %v, %s", err, out)
	}
	for _, tt := range []struct {
		password string
		args     []string
		status   int
		want     string // a part of the output
	}{
		{"wrong", []string{"ls", "/"}, int(cli.Denied), "the login of --jaas or an identity of --auth was rejected"},
		{"", []string{"ls", "/"}, int(cli.Denied), "--jaas FILE logs in by SASL"},
		{"wrong", slices.Concat(shell, []string{"ls", "/"}), 1, "AuthFailed"},
		{"", slices.Concat(shell, []string{"ls", "/"}), 1, "Session closed because client failed to authenticate"},
	} {
		out, err := run(tt.password, tt.args...)
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != tt.status || !strings.Contains(out, tt.want) {
			t.Errorf("password %q, %q: %v, %s", tt.password, tt.args, err, out)
		}
	}
}

// Commands of Rollcall log in by SASL to Rollcall and to Debian's ZooKeeper.
func TestCommandsSASL(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	startSASL(t).commandsSASL(ctx, t)
	startZooKeeperSASL(t).commandsSASL(ctx, t)
	fmt.Println("client scenario: commands-sasl ok")
}

// kazoo logs in by SASL: users, ACLs, the super user, wrong passwords.
func TestKazooSASL(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	requireKazooSASL(t)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	if err := startSASL(t).kazooSASL(ctx); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: kazoo-sasl ok")
}

// The Java client logs in by SASL to Rollcall. It and kazoo log in to Debian's ZooKeeper in the same way.
func TestSASLBesideZooKeeper(t *testing.T) {
	needs.Check(t, needs.Nightly)
	t.Parallel()
	requireKazooSASL(t)
	classPath := compileJava(t)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	zookeeper := startZooKeeperSASL(t)
	if err := startSASL(t).javaSASL(ctx, classPath); err != nil {
		t.Fatalf("Rollcall: %v", err)
	}
	fmt.Println("client scenario: java-sasl ok")
	if err := zookeeper.javaSASL(ctx, classPath); err != nil {
		t.Fatalf("ZooKeeper, Java: %v", err)
	}
	if err := zookeeper.kazooSASL(ctx); err != nil {
		t.Fatalf("ZooKeeper, kazoo: %v", err)
	}
	fmt.Println("client scenario: sasl-zookeeper ok")
}
