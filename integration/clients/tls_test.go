package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"rollcall/integration/needs"
	"rollcall/internal/keystore/authority"
	"rollcall/lab/process"
)

const (
	storePassword = "secret"
	owner         = "CN=app.example" // the subject of the client's certificate
)

// netty returns the class path of Netty, which Java's client needs for TLS. The manifest of Debian's ZooKeeper
// does not name all of it.
func netty() string {
	jars := []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"}
	for i, jar := range jars {
		jars[i] = "/usr/share/java/netty-" + jar + ".jar"
	}
	return strings.Join(jars, ":")
}

// secured is a server that takes clients over TLS on a port of its own and on its plain port, and the files of
// both sides: NAME.pem, NAME.p12 and NAME.jks for each identity, and ca.pem, ca.p12 and ca.jks. The server's
// certificate is good for the first port.
type secured struct {
	*process.Member
	ca     *authority.Authority
	dir    string
	addr   string // host:port for TLS
	reload bool   // the server reads changed files without a restart
}

// notOnZooKeeper are the parts of the scenarios that are left out with Debian's ZooKeeper 3.8.0, and why.
var notOnZooKeeper = []struct{ part, why string }{
	{"java-tls: the server's certificate is changed", "3.8.0 reads its stores when it starts; client.certReload is newer"},
}

// secure makes the files, and returns the lines of zoo.cfg for a server whose stores are two of them.
func secure(t *testing.T, keyStore, trustStore string) (s *secured, lines string) {
	t.Helper()
	now := time.Now()
	s = &secured{ca: newAuthority(t), dir: t.TempDir(), addr: process.FreePort(t).String()}
	host, port, _ := net.SplitHostPort(s.addr)
	cert := certificate(t, s.ca)
	s.write(t, "ca.pem", cert)
	s.trustStores(t, parse(t, cert))
	s.issue(t, s.ca, "own", now, "zk1.example", host)
	s.issue(t, s.ca, "app", now, "app.example")
	s.issue(t, s.ca, "old", now.Add(-3*time.Hour), "app.example") // it expired two hours ago
	stranger := newAuthority(t)
	s.write(t, "other-ca.pem", certificate(t, stranger))
	s.issue(t, stranger, "other", now, "app.example")
	return s, fmt.Sprintf(`secureClientPort=%s
secureClientPortAddress=%s
client.portUnification=true
ssl.keyStore.location=%s
ssl.keyStore.password=%[5]s
ssl.trustStore.location=%[4]s
ssl.trustStore.password=%[5]s
`, port, host, s.file(keyStore), s.file(trustStore), storePassword)
}

// startSecured starts a member.
func startSecured(t *testing.T, keyStore, trustStore string) *secured {
	t.Helper()
	s, lines := secure(t, keyStore, trustStore)
	s.reload = true
	s.Member = process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: lines}).Members[0]
	return s
}

// startZooKeeperSecured starts Debian's ZooKeeper.
func startZooKeeperSecured(t *testing.T, keyStore, trustStore string) *secured {
	t.Helper()
	s, lines := secure(t, keyStore, trustStore)
	s.Member = startZooKeeper(t, lines+"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n")
	if err := process.Until(t.Context(), "ZooKeeper serves", func() bool { return s.Mode() == "standalone" }); err != nil {
		t.Fatal(err)
	}
	return s
}

func newAuthority(t *testing.T) *authority.Authority {
	t.Helper()
	ca, err := authority.New("rollcall", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// certificate returns the certificate of an authority in PEM.
func certificate(t *testing.T, ca *authority.Authority) []byte {
	t.Helper()
	text, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (s *secured) write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(s.file(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *secured) file(name string) string { return filepath.Join(s.dir, name) }

// issue writes NAME.pem, NAME.p12 and NAME.jks with a certificate of ca and its key.
func (s *secured) issue(t *testing.T, ca *authority.Authority, name string, now time.Time, names ...string) {
	t.Helper()
	text, err := ca.Issue(names, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name+".pem", text)
	own, err := tls.X509KeyPair(text, text)
	if err != nil {
		t.Fatal(err)
	}
	p12, err := pkcs12.Modern.Encode(own.PrivateKey, own.Leaf, nil, storePassword)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name+".p12", p12)
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s.writeJKS(t, name+".jks", func(k jks.KeyStore) error {
		return k.SetPrivateKeyEntry(name, jks.PrivateKeyEntry{
			CreationTime: now, PrivateKey: key, CertificateChain: []jks.Certificate{{Type: "X509", Content: own.Leaf.Raw}},
		}, []byte(storePassword))
	})
}

// trustStores writes ca.p12 and ca.jks.
func (s *secured) trustStores(t *testing.T, ca *x509.Certificate) {
	t.Helper()
	p12, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{ca}, storePassword)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "ca.p12", p12)
	s.writeJKS(t, "ca.jks", func(k jks.KeyStore) error {
		return k.SetTrustedCertificateEntry("ca", jks.TrustedCertificateEntry{CreationTime: time.Now(), Certificate: jks.Certificate{Type: "X509", Content: ca.Raw}})
	})
}

func (s *secured) writeJKS(t *testing.T, name string, fill func(jks.KeyStore) error) {
	t.Helper()
	store := jks.New()
	if err := fill(store); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := store.Store(&file, []byte(storePassword)); err != nil {
		t.Fatal(err)
	}
	s.write(t, name, file.Bytes())
}

// readAgain has the member read its files again, and waits until a new connection shows the certificate of name.
func (s *secured) readAgain(t *testing.T, name string) {
	t.Helper()
	if err := s.Process.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	err := process.Until(t.Context(), "the new certificate is in use", func() bool {
		c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName == name
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stores returns the settings of a Java client, without "ssl.".
func (s *secured) stores(key, trust string) string {
	settings := "trustStore.location=" + s.file(trust)
	if key != "" {
		settings += " keyStore.location=" + s.file(key)
	}
	if strings.HasSuffix(trust, ".pem") {
		return settings
	}
	return settings + " keyStore.password=" + storePassword + " trustStore.password=" + storePassword
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	t.Cleanup(cancel)
	return ctx
}

// Java's client connects over TLS with stores of each format, and its certificate is its identity. It is rejected
// without a certificate, and with one that is expired or of another authority. It rejects a member that it does not
// trust, or whose certificate is not for the member's name. Its session outlives a change of the member's certificate.
func TestJavaTLS(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	classPath := compileJava(t)
	startSecured(t, "own.jks", "ca.p12").java(t, classPath)
	fmt.Println("client scenario: java-tls ok")
}

func (s *secured) java(t *testing.T, classPath string) {
	t.Helper()
	ctx := limited(t)
	d, err := talk("java TLSClient", java(classPath+":"+netty(), "TLSClient"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	number := 0
	ask := func(verb, addr, settings, want string) {
		t.Helper()
		number++
		if err := d.sendLine(ctx, fmt.Sprintf("%s %s /java-%d %s", verb, addr, number, settings), want); err != nil {
			t.Fatal(err)
		}
	}
	for _, stores := range []string{s.stores("app.pem", "ca.pem"), s.stores("app.p12", "ca.p12"), s.stores("app.jks", "ca.jks")} {
		ask("try", s.addr, stores, "created for "+owner)
	}
	ask("hold", s.Clients, s.stores("app.pem", "ca.pem")+" hostnameVerification=false", "created for "+owner) // the unified port
	ask("fail", s.Clients, s.stores("app.pem", "ca.pem"), "refused")                                          // the certificate is not for this address
	for _, stores := range []string{s.stores("", "ca.pem"), s.stores("old.pem", "ca.pem"), s.stores("other.pem", "ca.pem"), s.stores("app.pem", "other-ca.pem")} {
		ask("fail", s.addr, stores, "refused")
	}
	if s.reload {
		s.issue(t, s.ca, "own", time.Now(), "elsewhere.example")
		s.readAgain(t, "elsewhere.example")
		ask("fail", s.addr, s.stores("app.pem", "ca.pem"), "refused")
		ask("try", s.addr, s.stores("app.pem", "ca.pem")+" hostnameVerification=false", "created for "+owner)
	}
	if err := d.sendLine(ctx, "use", "used by 0x"); err != nil {
		t.Fatal(err)
	}
}

// zkCli.sh connects with the properties of a file.
func TestZkCLITLS(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	startSecured(t, "own.p12", "ca.jks").zkcli(t)
	fmt.Println("client scenario: zkcli-tls ok")
}

func (s *secured) zkcli(t *testing.T) {
	t.Helper()
	needs.Check(t, needs.ZooKeeper)
	s.write(t, "client.properties", fmt.Appendf(nil, `zookeeper.client.secure=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keyStore.location=%[1]s/app.pem
zookeeper.ssl.trustStore.location=%[1]s/ca.pem
`, s.dir))
	cmd := zkcliCommand(seat{hosts: []string{s.addr}}, "-client-configuration", s.file("client.properties"), "whoami")
	cmd.Env = append(cmd.Env, "CLIENT_JVMFLAGS=-cp "+zookeeperJar+":"+netty()) // after the script's own class path, and so instead of it
	d, err := talk("zkCli.sh whoami", cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	if _, err := d.expect(limited(t), "x509: "+owner); err != nil {
		t.Fatal(err)
	}
}

// kazoo connects over TLS and is rejected, as python/kazoo_tls.py says.
func TestKazooTLS(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	startSecured(t, "own.pem", "ca.pem").kazoo(t)
	fmt.Println("client scenario: kazoo-tls ok")
}

func (s *secured) kazoo(t *testing.T) {
	t.Helper()
	needs.Check(t, needs.Kazoo)
	d, err := talk("kazoo", exec.Command(python, "-B", "python/kazoo_tls.py", s.addr, s.file("ca.pem"), s.file("other-ca.pem"), s.file("app.pem")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	if _, err := d.expect(limited(t), "ok"); err != nil {
		t.Fatal(err)
	}
}

// go-zookeeper connects through a dialer that speaks TLS. A session over TLS and one without it live beside each
// other on the port that takes both, and a four-letter word is answered over TLS.
func TestGoTLS(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	startSecured(t, "own.pem", "ca.pem").goClient(t)
	fmt.Println("client scenario: go-tls ok")
}

func (s *secured) goClient(t *testing.T) {
	t.Helper()
	own, err := tls.LoadX509KeyPair(s.file("app.pem"), s.file("app.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate(t, s.ca))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, ServerName: "zk1.example"}
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, addr, config)
	}
	for _, addr := range []string{s.addr, s.Clients} {
		c, err := dialGoThrough(t.Context(), seat{hosts: []string{addr}}, sessionTimeout, dial)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		path := "/go-" + strings.TrimPrefix(addr, "127.0.0.1:")
		if _, err := c.Create(path, nil, 0, zk.AuthACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		if acl, _, err := c.GetACL(path); err != nil || len(acl) != 1 || acl[0].Scheme != "x509" || acl[0].ID != owner {
			t.Fatalf("%s: %v, %v", addr, acl, err)
		}
	}
	openFrom(t, s.Member, "", longTimeout) // without TLS
	c, err := dial("tcp", s.addr, process.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("srvr")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len("Zookeeper version"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "Zookeeper version" {
		t.Fatalf("srvr: %q, %v", answer, err)
	}
}

// The same clients connect over TLS to Debian's ZooKeeper, which rejects them in the same cases.
func TestTLSBesideZooKeeper(t *testing.T) {
	needs.Check(t, needs.Nightly)
	t.Parallel()
	classPath := compileJava(t)
	s := startZooKeeperSecured(t, "own.jks", "ca.p12")
	for _, scenario := range []struct {
		name string
		play func(t *testing.T)
	}{
		{"java", func(t *testing.T) { s.java(t, classPath) }},
		{"zkcli", s.zkcli},
		{"kazoo", s.kazoo},
		{"go", s.goClient},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
			fmt.Printf("client scenario: %s-tls zookeeper ok\n", scenario.name)
		})
	}
	for _, left := range notOnZooKeeper {
		t.Logf("left out: %s (%s)", left.part, left.why)
	}
}
