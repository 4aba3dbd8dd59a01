package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ours "rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/kerberos/credentials"
)

// kerberosWorld has a KDC and two servers: on the first clients may log in, and on the second they must, and names are short.
type kerberosWorld struct {
	*kdc
	hosts      [2]string
	principals [2]string
	logs       [2]func() string
}

// startKerberos starts members of Rollcall.
func startKerberos(t *testing.T) *kerberosWorld {
	t.Helper()
	needs.Check(t, needs.KDC)
	w := &kerberosWorld{kdc: startKDC(t)}
	for i := range w.hosts {
		w.hosts[i], w.principals[i], _, w.logs[i] = w.startMember(i, func(at *net.TCPAddr, lines, jaas string) func() string {
			dir := t.TempDir()
			path := filepath.Join(dir, "zoo.cfg")
			text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=%s\ntickTime=%d\nadmin.enableServer=false\njava.security.auth.login.config=%s\njava.security.krb5.conf=%s\n%s",
				dir, at.Port, at.IP, tick.Milliseconds(), jaas, w.path("krb5.conf"), lines)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			printed := &transcript{more: make(chan struct{})}
			cmd := exec.Command(rollcall, "serve", path)
			cmd.Stdout, cmd.Stderr = &stream{to: printed}, &stream{to: printed}
			process.Start(t, "rollcall", cmd, printed.text)
			return printed.text
		})
	}
	return w
}

// startZooKeeperKerberos starts servers of Debian's ZooKeeper.
func startZooKeeperKerberos(t *testing.T) *kerberosWorld {
	t.Helper()
	needs.Check(t, needs.KDC, needs.ZooKeeper)
	w := &kerberosWorld{kdc: startKDC(t)}
	for i := range w.hosts {
		w.hosts[i], w.principals[i], _, w.logs[i] = w.startMember(i, func(at *net.TCPAddr, lines, jaas string) func() string {
			flags := []string{"-Djava.security.auth.login.config=" + jaas, "-Djava.security.krb5.conf=" + w.path("krb5.conf")}
			for line := range strings.Lines(lines) { // the server reads some of these as properties alone
				flags = append(flags, "-Dzookeeper."+strings.TrimSpace(line))
			}
			lines = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
			startZooKeeperAt(t, at, lines, flags...)
			return func() string { return "" }
		})
	}
	return w
}

// login returns the credentials of a principal with its keytab.
func (w *kerberosWorld) login(principal string) *credentials.Credentials {
	return credentials.New(credentials.Config{Keytab: w.keytab(principal), Principal: principal, Krb5Conf: w.path("krb5.conf")})
}

// connect connects a Go client, which has logged in if who is not nil.
func (w *kerberosWorld) connect(ctx context.Context, t *testing.T, host string, who ours.Mechanism) (*ours.Client, error) {
	t.Helper()
	c, err := ours.Dial(ctx, host, ours.Config{Login: who, WhileSuspended: ours.Fail})
	if err == nil {
		t.Cleanup(func() { _ = c.Close(context.WithoutCancel(ctx)) })
	}
	return c, err
}

// awaitLine waits until the log of the first member has a text.
func (w *kerberosWorld) awaitLine(ctx context.Context, text string) {
	w.t.Helper()
	if err := process.Until(ctx, "the log has "+text, func() bool { return strings.Contains(w.logs[0](), text) }); err != nil {
		w.t.Errorf("%v\n%s", err, w.logs[0]())
	}
}

// java returns a command of Java's client, which logs in as one of the principals.
func (w *kerberosWorld) java(classPath, principal string, args ...string) *exec.Cmd {
	cmd := java(classPath, "KerberosCases", args...)
	jaas := w.writeJAAS("client.jaas", "Client", w.keytab(principal), principal)
	cmd.Args = slices.Insert(cmd.Args, 1, "-Djava.security.krb5.conf="+w.path("krb5.conf"), "-Djava.security.auth.login.config="+jaas,
		"-Dzookeeper.sasl.client.canonicalize.hostname=false")
	return cmd
}

// javaLogsIn runs Java's client as each principal on both servers, and compares the names.
func (w *kerberosWorld) javaLogsIn(ctx context.Context, classPath string) error {
	for principal, names := range map[string][2]string{
		"bob": {"sasl bob@EXAMPLE.COM", "sasl bob"}, "carol": {"sasl carol@EXAMPLE.COM", "sasl carol"},
		"app/host": {"sasl app/host@EXAMPLE.COM", "sasl app-service"},
	} {
		for i, host := range w.hosts {
			d, err := talk("KerberosCases", w.java(classPath, principal, host))
			if err != nil {
				return err
			}
			defer d.stop()
			line, err := d.expect(ctx, "is ")
			if err != nil {
				return fmt.Errorf("%s on server %d: %w", principal, i, err)
			}
			if got := strings.TrimPrefix(line, "is "); got != names[i] {
				return fmt.Errorf("%s on server %d is %q, want %q", principal, i, got, names[i])
			}
		}
	}
	return nil
}

// A Go client logs in by keytab and by a cache of tickets. Its identity is in ACLs. A keytab that was replaced counts at once, and each
// failure has a line in the member's log.
func TestGoKerberos(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startKerberos(t)
	bob, err := w.connect(ctx, t, w.hosts[0], w.login("bob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := bob.Create(ctx, "/bob", []byte("x"), ours.Persistent.WithACL(ours.ACL{Permissions: ours.PermAll, Identity: ours.Identity{Scheme: "sasl", ID: "bob@EXAMPLE.COM"}})); err != nil {
		t.Fatal(err)
	}
	stranger, err := w.connect(ctx, t, w.hosts[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stranger.Get(ctx, "/bob"); !errors.Is(err, ours.ErrNoAuth) {
		t.Errorf("a stranger reads bob's node: %v", err)
	}
	carol, err := w.connect(ctx, t, w.hosts[0], w.login("carol"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := carol.Get(ctx, "/bob"); err != nil {
		t.Errorf("the super user: %v", err)
	}

	// Another version of the key: first the KDC alone has it, and then the keytab.
	copied := w.path("copied.keytab")
	w.run("kadmin.local", "-r", "EXAMPLE.COM", "ktadd", "-k", copied, w.principals[0])
	if _, err := w.connect(ctx, t, w.hosts[0], w.login("bob")); !errors.Is(err, ours.ErrAuthFailed) {
		t.Errorf("with a key that the member does not have: %v", err)
	}
	w.awaitLine(ctx, `fault="unknown key version" reason="the ticket is encrypted with version 3 of the key; the keytab has 2: `)
	if err := os.Rename(copied, w.keytab(w.principals[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := w.connect(ctx, t, w.hosts[0], w.login("bob")); err != nil {
		t.Errorf("with the new keytab: %v", err)
	}
	other := credentials.New(credentials.Config{Keytab: w.keytab("bob"), Principal: "bob", Krb5Conf: w.path("krb5.conf"), ServerPrincipal: w.principals[1]})
	if _, err := w.connect(ctx, t, w.hosts[0], other); !errors.Is(err, ours.ErrAuthFailed) {
		t.Errorf("with a ticket for another server: %v", err)
	}
	w.awaitLine(ctx, `fault="wrong service" reason="the ticket is for `)
	w.awaitLine(ctx, "keytab replaced")
	fmt.Println("client scenario: go-kerberos ok")
}

// Commands log in by keytab and by the cache that kinit fills. Names are short where the keys say so.
func TestCommandsKerberos(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Kinit)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startKerberos(t)
	kinit := exec.Command("kinit", "-k", "-t", w.keytab("app/host"), "app/host")
	kinit.Env = w.env
	if out, err := kinit.CombinedOutput(); err != nil {
		t.Fatalf("kinit: %v\n%s", err, out)
	}
	cache := w.path("cache.jaas")
	if err := os.WriteFile(cache, []byte("Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true; };"), 0o600); err != nil {
		t.Fatal(err)
	}
	for jaas, want := range map[string]string{w.writeJAAS("bob.jaas", "Client", w.keytab("bob"), "bob"): "sasl: bob\n", cache: "sasl: app-service\n"} {
		var out []byte
		err := process.Until(ctx, "the command logs in", func() bool {
			cmd := exec.CommandContext(ctx, rollcall, "shell", "--hosts", w.hosts[1], "--jaas", jaas, "whoami")
			cmd.Env = w.env
			var err error
			out, err = cmd.CombinedOutput()
			return err == nil
		})
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s, want %s", jaas, err, out, want)
		}
	}
	fmt.Println("client scenario: commands-kerberos ok")
}

// kazoo logs in by GSSAPI with MIT's library.
func TestKazooKerberos(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Kazoo, needs.PureSASL, needs.PyKerberos)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startKerberos(t)
	cmd := exec.Command(python, "-B", "python/kazoo_kerberos.py", w.hosts[0], "bob@EXAMPLE.COM", w.hosts[1], "bob")
	cmd.Env = append(slices.Clone(w.env), "KRB5_CLIENT_KTNAME="+w.keytab("bob"))
	if err := obey(ctx, "kazoo", cmd, map[string]func() error{"ok": func() error { return nil }}); err != nil {
		t.Fatalf("%v\n%s", err, w.logs[0]())
	}
	fmt.Println("client scenario: kazoo-kerberos ok")
}

// Java's client logs in to Rollcall and to Debian's ZooKeeper, and has the same names there.
func TestJavaKerberos(t *testing.T) {
	needs.Check(t, needs.Nightly, needs.ZooKeeper)
	t.Parallel()
	classPath := compileJava(t)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startKerberos(t)
	if err := w.javaLogsIn(ctx, classPath); err != nil {
		t.Fatalf("Rollcall: %v\n%s\n%s", err, w.logs[0](), w.logs[1]())
	}
	fmt.Println("client scenario: java-kerberos ok")
	if err := startZooKeeperKerberos(t).javaLogsIn(ctx, classPath); err != nil {
		t.Fatalf("ZooKeeper: %v", err)
	}
	fmt.Println("client scenario: kerberos-zookeeper ok")
}
