package clients

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/lab/process"
)

// kdc is a KDC of the realm EXAMPLE.COM with its files in a directory of the test's own.
type kdc struct {
	t   *testing.T
	dir string
	env []string // of programs that use it

	address string
	process *process.Process
}

// kdcFiles are the configuration. In it, DIR stands for the directory and ADDRESS for the KDC's address.
var kdcFiles = map[string]string{
	"krb5.conf": `[libdefaults]
 default_realm = EXAMPLE.COM
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 EXAMPLE.COM = {
  kdc = ADDRESS
 }
`,
	"kdc.conf": `[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = ADDRESS
[realms]
 EXAMPLE.COM = {
  database_name = DIR/principal
  key_stash_file = DIR/stash
  acl_file = DIR/kadm5.acl
  supported_enctypes = aes256-cts:normal aes128-cts:normal aes256-sha2:normal aes128-sha2:normal
 }
[logging]
 kdc = FILE:DIR/kdc.log
`,
}

// startKDC starts a KDC with the principals bob, carol and app/host, and a keytab of each.
func startKDC(t *testing.T) *kdc {
	t.Helper()
	k := &kdc{t: t, dir: t.TempDir()}
	address := process.FreePort(t).String()
	for name, text := range kdcFiles {
		text = strings.NewReplacer("DIR", k.dir, "ADDRESS", address).Replace(text)
		if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.path("krb5.conf"), "KRB5_KDC_PROFILE="+k.path("kdc.conf"), "KRB5CCNAME=FILE:"+k.path("cache"))
	k.run("kdb5_util", "-r", "EXAMPLE.COM", "create", "-s", "-P", "master")
	for _, name := range []string{"bob", "carol", "app/host"} {
		k.addService(name, k.keytab(name))
	}
	k.address = address
	k.start()
	return k
}

// start starts the KDC, which runs until the test ends or it is killed.
func (k *kdc) start() {
	k.t.Helper()
	cmd := exec.Command("/usr/sbin/krb5kdc", "-r", "EXAMPLE.COM", "-n")
	cmd.Env = k.env
	printed := transcript{more: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &stream{to: &printed}, &stream{to: &printed}
	k.process = process.Start(k.t, "krb5kdc", cmd, printed.text)
	err := process.Until(k.t.Context(), "the KDC listens", func() bool {
		conn, err := net.Dial("tcp", k.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kdc) path(name string) string { return filepath.Join(k.dir, name) }

// keytab returns the path of a principal's keytab.
func (k *kdc) keytab(principal string) string {
	return k.path(strings.ReplaceAll(principal, "/", "-") + ".keytab")
}

// run runs a program of the KDC.
func (k *kdc) run(name string, args ...string) {
	k.t.Helper()
	cmd := exec.Command("/usr/sbin/"+name, args...)
	cmd.Env = k.env
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// addService adds a principal, and its first keys to a keytab.
func (k *kdc) addService(principal, keytab string) {
	k.t.Helper()
	k.run("kadmin.local", "-r", "EXAMPLE.COM", "addprinc", "-randkey", principal)
	k.run("kadmin.local", "-r", "EXAMPLE.COM", "ktadd", "-k", keytab, principal)
}

// kerberosLines are of the zoo.cfg of each. carol is the super user.
var kerberosLines = [2]string{
	"superUser=carol@EXAMPLE.COM\n",
	"sessionRequireClientSASLAuth=true\nsuperUser=carol\nkerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true\n" +
		"security.auth_to_local=RULE:[2:$1-$2](app-.*)s/-.*/-service/ DEFAULT\n",
}

// writeJAAS writes a section of a JAAS file with a keytab, and returns its path.
func (k *kdc) writeJAAS(name, section, keytab, principal string) string {
	k.t.Helper()
	text := fmt.Sprintf("%s {\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true\n  keyTab=\"%s\"\n  storeKey=true\n  useTicketCache=false\n  principal=\"%s@EXAMPLE.COM\";\n};\n",
		section, keytab, principal)
	if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return k.path(name)
}

// startMember starts a server with Kerberos, whose principal has its address. start starts one with lines of a zoo.cfg and the path of
// its JAAS file, at an address.
func (k *kdc) startMember(number int, start func(address *net.TCPAddr, lines, jaas string) (log func() string)) (address, principal, keytab string, log func() string) {
	k.t.Helper()
	at := process.FreePort(k.t)
	principal = "zookeeper/" + at.IP.String()
	keytab = k.keytab(principal)
	k.addService(principal, keytab)
	jaas := k.writeJAAS(fmt.Sprint("server", number, ".jaas"), "Server", keytab, principal)
	log = start(at, kerberosLines[number], jaas)
	return at.String(), principal, keytab, log
}
